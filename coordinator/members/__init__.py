"""Who was invited, who joined, and what the fleet's authority signed."""
