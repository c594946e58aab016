"""From an upload's bytes to the next state."""
