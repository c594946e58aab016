"""A run in the laboratory."""
