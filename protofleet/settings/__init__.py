"""Settings as frozen dataclasses, from flags, environment and files."""
