"""The training process: started, told, bounded."""
