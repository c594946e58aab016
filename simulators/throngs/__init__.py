"""Ten thousand devices at one coordinator: light ones, in a few processes."""
