"""Who takes part in a round: a seeded function of the fleet and the round, never of who answered
first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from protofleet.contract import Contract
from protofleet.util import seeds


def participants(contract: Contract, round: int, agents: Sequence[str], share: float) -> list[str]:
    """At least one agent, the share rounded up, in the order of their names."""
    names = sorted(agents)
    count = max(1, math.ceil(share * len(names) - 1e-9))  # 0.1 of 30 is 3, whatever floats say
    if count >= len(names):
        return names
    rng = seeds.generator(contract.seed, contract.run, round, "participants")
    return sorted(rng.choice(names, size=count, replace=False).tolist())
