"""Uploads taken in by several processes."""
