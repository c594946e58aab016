"""Who takes part in a round: a seeded function of the fleet and the round, never of who answered
first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from protofleet.contract import Contract
from protofleet.util import seeds

HEADER = 2  # bytes before a text of at most 255, in CBOR


def participants(
    contract: Contract, round: int, agents: Sequence[str], share: float, room: int | None = None
) -> list[str]:
    """At least one agent, the share rounded up, in the order of their names; fewer where an
    announcement has not the `room` (in bytes) to name them.
    """
    names = sorted(agents)
    count = max(1, math.ceil(share * len(names) - 1e-9))  # 0.1 of 30 is 3, whatever floats say
    if count >= len(names) and room is None:
        return names
    rng = seeds.generator(contract.seed, contract.run, round, "participants")
    drawn = rng.choice(names, size=min(count, len(names)), replace=False).tolist()
    # What is drawn is in no order, so the first of it are as good a share as any.
    return sorted(drawn if room is None else _fitting(drawn, room))


def _fitting(names: Sequence[str], room: int) -> Sequence[str]:
    """As many of the first as their texts have room for, and one at least."""
    ends = itertools.accumulate(len(name.encode()) + HEADER for name in names)
    return names[: max(1, sum(end <= room for end in ends))]
