"""What a changed contribution costs in ledgers of 10 and of 1,000 devices, and what a start does:
`python tools/ledger_cost.py` prints both.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from coordinator.journal.journal import Journal
from coordinator.journal.tables import ContributionRecord
from coordinator.ledger import snapshot
from coordinator.ledger.ledger import GRID, Entry, Ledger
from coordinator.ledger.versions import read_ledger
from protofleet.exchange import contributed
from protofleet.exchange.contributed import Claim, Contributed
from protofleet.statistics.contribution import contribution
from protofleet.values import sums
from protofleet.wire import Envelope, unseal

WIDTH, CLASSES, PHOTOS, TIMES, STARTING = 1280, 10, 30, 15, 200
LINEAGE = "extractor:measured"


def payload(seed: int) -> bytes:
    """A device's own contribution."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(CLASSES), PHOTOS)
    own = contribution(rng.normal(size=(len(labels), WIDTH)), labels, GRID)
    names = tuple(f"class-{n}" for n in range(CLASSES))
    envelope = Envelope("enrol", "measured", agent="device", method=contributed.CONTRIBUTE)
    return contributed.write_contribution(Claim(LINEAGE, names), own, envelope)


def message(seed: int) -> Contributed:
    """The same, as it is read."""
    answer = contributed.read(payload(seed))
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
    with tempfile.TemporaryDirectory() as folder:
        added, read = start(Path(folder), STARTING)
    print(f"a start with {STARTING} devices: {added:.2f} s added up, {read:.2f} s as it was kept")


def start(folder: Path, devices: int) -> tuple[float, float]:
    """Seconds until a ledger is where its journal is, by its contributions and by its snapshot."""
    journal = Journal(folder, lambda: 0.0)
    payloads = [payload(seed) for seed in range(4)]
    with journal.commit():
        for n in range(devices):
            body = payloads[n % len(payloads)]
            digest = sha256(unseal(body)[1]).hexdigest()
            record = ContributionRecord(f"device-{n}", "", digest)
            journal.ledger.put_contribution(LINEAGE, record, body)
    began = time.perf_counter()
    ledger, _ = read_ledger(journal.ledger, Ledger(LINEAGE))
    added = time.perf_counter() - began
    snapshot.write(journal, ledger)
    began = time.perf_counter()
    again, _ = read_ledger(journal.ledger, Ledger(LINEAGE), like=snapshot.read(journal, LINEAGE))
    read = time.perf_counter() - began
    assert sums.digest(again.total) == sums.digest(ledger.total)
    assert len(again.entries) == devices
    journal.close()
    return added, read


if __name__ == "__main__":
    main()
