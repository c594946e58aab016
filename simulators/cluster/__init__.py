"""The laboratory on a Ray cluster."""
