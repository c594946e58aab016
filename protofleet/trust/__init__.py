"""Who said it: keys, certificates, signatures over messages, and how a device comes by them."""
