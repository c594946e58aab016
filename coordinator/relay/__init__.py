"""A site: a coordinator for its devices, and one member of the fleet above it."""
