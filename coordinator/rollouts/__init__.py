"""A bundle, or classes, brought to a fleet a few devices at a time, and back where that fails."""
