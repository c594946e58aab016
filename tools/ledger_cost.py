"""What a changed contribution costs in ledgers of 10 and of 1,000 devices: `python
tools/ledger_cost.py` prints both and their ratio.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from coordinator.ledger.ledger import GRID, Entry, Ledger
from protofleet.exchange import contributed
from protofleet.exchange.contributed import Claim, Contributed
from protofleet.statistics.contribution import contribution
from protofleet.wire import Envelope

WIDTH, CLASSES, PHOTOS, TIMES = 1280, 10, 30, 15
LINEAGE = "extractor:measured"


def message(seed: int) -> Contributed:
    """A device's own, as it is read."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(CLASSES), PHOTOS)
    own = contribution(rng.normal(size=(len(labels), WIDTH)), labels, GRID)
    names = tuple(f"class-{n}" for n in range(CLASSES))
    envelope = Envelope("enrol", "measured", agent="device", method=contributed.CONTRIBUTE)
    payload = contributed.write_contribution(Claim(LINEAGE, names), own, envelope)
    answer = contributed.read(payload)
    assert isinstance(answer, Contributed)
    return answer


def of(devices: int, own: Contributed) -> Ledger:
    """With so many devices. All but one are remembered as a ledger does, and not in the sums, which
    are as large whoever is in them.
    """
    ledger = Ledger(LINEAGE).plus("device", own)
    others = {(f"other-{n}", ""): Entry.of(own) for n in range(devices - 1)}
    return replace(ledger, entries={**ledger.entries, **others})


def main() -> None:
    """The least of some replacements in both, in turn."""
    old, new = message(0), message(1)
    least = {devices: float("inf") for devices in (10, 1000)}
    ledgers = {devices: of(devices, old) for devices in least}
    for _ in range(TIMES):
        for devices, ledger in ledgers.items():
            began = time.perf_counter()
            ledger.plus("device", new, old)
            least[devices] = min(least[devices], time.perf_counter() - began)
    few, many = least.values()
    print(f"10 devices {1e3 * few:.1f} ms, 1,000 {1e3 * many:.1f} ms, ratio {many / few:.2f}")


if __name__ == "__main__":
    main()
