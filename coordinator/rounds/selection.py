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
    known = sorted(agents)
    count = max(1, math.ceil(share * len(known) - 1e-9))
    if count >= len(known):
        return known
    rng = seeds.generator(contract.seed, contract.run, round, "participants")
    return sorted(rng.choice(known, size=count, replace=False).tolist())
