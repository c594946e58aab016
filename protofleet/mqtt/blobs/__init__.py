"""Payloads that are too large for one packet."""
