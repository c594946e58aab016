"""Bundles that are good and bad in different ways, rolled out to a real fleet under fire."""
