"""What the fleet publishes, taken in: prototypes, bundles, new classes."""
