"""A device's network: backbones by name, heads, weights from elsewhere."""
