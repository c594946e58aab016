"""Randomness by name: every draw comes from a generator seeded by who draws, when and what for.

No global generator is ever read, so a draw does not depend on what ran before it or in which
process.
"""

from __future__ import annotations

import hashlib

import numpy as np

Name = str | int


def seed_of(*names: Name) -> int:
    """A 63-bit seed that depends on the names and on nothing else."""
    # The length before each name keeps ("ab", "c") apart from ("a", "bc"), the type keeps 1 apart
    # from "1".
    text = "".join(f"{type(n).__name__}:{len(str(n))}:{n};" for n in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def generator(*names: Name) -> np.random.Generator:
    """A generator of its own for these names."""
    return np.random.Generator(np.random.PCG64(seed_of(*names)))
