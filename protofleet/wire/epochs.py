"""Which epochs are believed: a coordinator's lives are counted one by one, so a word that is far
ahead of what was there before is nobody's.

Every life of a coordinator has an epoch, one above the highest that it knows, and devices follow
the highest. A number out of thin air would therefore shut the fleet's own coordinator out for good;
bounded, it can be topped by a restart, wherever it was believed.
"""

from __future__ import annotations

JUMP = 2**20  # a start every ten seconds for four months
FIRST = 2**24  # of a run that was never heard of: whoever joins late has missed some lives


def is_credible(epoch: int, known: int) -> bool:
    """Whether a word of this epoch is believed by who knows of another; below 0: of none."""
    return epoch <= (known + JUMP if known >= 0 else FIRST)


def is_sound(epoch: int) -> bool:
    """Whether a number that was written down before these bounds may stay: so high none can be."""
    return epoch < 2**62


def following(own: int, highest: int) -> int:
    """A new life's epoch: above its own last one and above what was heard, as far as those who
    know the last one believe it.
    """
    last = own if is_sound(own) else JUMP // 2
    return min(max(last, highest) + 1, last + JUMP)
