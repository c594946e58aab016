"""Devices that lie within what admission lets in, and what their neighbours then still know."""
