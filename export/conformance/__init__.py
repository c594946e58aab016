"""Clients in any language, held to what a bundle answers."""
