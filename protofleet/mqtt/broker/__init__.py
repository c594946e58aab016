"""Brokers of our own."""
