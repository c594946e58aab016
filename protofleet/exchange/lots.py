"""Who is asked in a round, by lot: a rule that every device evaluates for itself, so that an
announcement is as short for ten thousand devices as for ten.

In every round each device has a lot, a number that follows from the run's seed, the round and the
device's name. Asked are the devices with the lowest ones, and all that has to be said of them is
the highest lot among them, the bar. Who comes in the midst of the round with a lot below it is
asked as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protofleet.contract import Contract
from protofleet.errors import WireError
from protofleet.util import seeds

BAR = "bar"  # what an announcement calls it


def lot(contract: Contract, round: int, agent: str) -> int:
    """A device's, of 63 bits: nobody chooses it, and in the next round it is another."""
    return seeds.seed_of(contract.seed, contract.run, round, "participants", agent)


@dataclass(frozen=True)
class Lots:
    """Of one round."""

    contract: Contract
    round: int
    bar: int

    def ask(self, agent: str) -> bool:
        """Whether this device takes part."""
        return lot(self.contract, self.round, agent) <= self.bar


def read_lots(body: Mapping[str, Any], contract: Contract, round: int) -> Lots | None:
    """As a round's announcement says them; None where it has no bar."""
    bar = body.get(BAR)
    if bar is None:
        return None
    if type(bar) is not int or bar < 0:
        raise WireError("round.body.bar: not a whole number from 0 up")
    return Lots(contract, round, bar)
