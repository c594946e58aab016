"""The subcommands that the laboratory brings to `protofleet`."""
