"""The laboratory's run by real processes over a real broker, and what holds the two to each
other.
"""
