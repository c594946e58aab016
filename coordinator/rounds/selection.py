"""Who takes part in a round: a seeded function of the fleet and the round, never of who answered
first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from protofleet.contract import Contract
from protofleet.exchange.lots import Lots, lot


def participants(contract: Contract, round: int, agents: Sequence[str], share: float) -> list[str]:
    """At least one agent, the share rounded up, those with the lowest lots; in the order of their
    names.
    """
    count = max(1, math.ceil(share * len(agents) - 1e-9))  # 0.1 of 30 is 3, whatever floats say
    if count >= len(agents):
        return sorted(agents)
    drawn = heapq.nsmallest(count, ((lot(contract, round, name), name) for name in agents))
    return sorted(name for _, name in drawn)


def lots_of(contract: Contract, round: int, participants: Sequence[str]) -> Lots:
    """The rule that asks these, and nobody else of those that could be asked with them."""
    bar = max((lot(contract, round, name) for name in participants), default=0)
    return Lots(contract, round, bar)
