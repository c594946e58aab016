"""What goes wrong between a fleet and its broker, on demand."""
