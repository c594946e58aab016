"""Everything that is tried, by what goes wrong."""
