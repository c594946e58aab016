"""ProtoFleet: a fleet of devices that learn together without sharing data or weights.

This package is what both ends share: the vocabulary, the wire, the recipes and what they are made
of. Importing it costs numpy and nothing more.
"""

__version__ = "0.1.0"
