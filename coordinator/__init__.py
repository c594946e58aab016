"""What runs once per fleet: rounds, fusion and what goes with them."""
