"""The training process: started, given its orders, bounded."""
