"""A ledger of masked sums without a network: a coordinator's core, and devices that have a message
and a store.
"""

from __future__ import annotations

import io
from pathlib import Path

from coordinator.config import LedgerSection
from edge_agent.daemon.masker import Masker
from edge_agent.daemon.summing import LedgerSums
from edge_agent.protocol.events import RoundSpec
from edge_agent.store import Store
from protofleet import wire
from protofleet.exchange import contributed, gathered
from protofleet.masking.letters import decode_letter
from protofleet.masking.rooms import MaskTerms
from protofleet.util.logs import Log
from tests.contributing import FLEET, LINEAGE, arrived, counted, message
from tests.coordinator import made

CLASSES = ("plum", "apple", "pear")
HAVE = {
    "a": ("apple", "plum"),
    "b": ("plum", "apple", "pear"),
    "c": ("pear", "apple"),
    "d": ("plum",),
    "e": ("apple", "pear"),
}
SETTLE = 20.0
RULES = LedgerSection(interval=0.0, settle=SETTLE)
MASKS = MaskTerms(1)
KINDS = {"keys": "PublicKeys", "shares": "Boxes", "masks": "MaskedSum", "reveal": "Reveal"}


class LedgerDevice:
    """One, by what it has on disk."""

    def __init__(self, name: str, folder: Path, contract) -> None:
        self.name, self.log, self.box, self.seed = name, Log(io.StringIO()), [], 0
        self.folder, self.contract, self.store = folder, contract, None
        self.said: list[str] = []  # kinds of letters
        self.start()

    def start(self):
        """A new life."""
        if self.store is not None:
            self.store.close()
        self.store, self.box = Store(self.folder), []
        masker = Masker(self.name, self.store, self.log)
        masker.announced(RoundSpec("r1", "fleet", self.contract.announced(), {}))
        self.sums = LedgerSums(masker, FLEET, lambda name, payload: self.box.append(payload))

    def contributes(self, seed=0, names=None):
        """There is a contribution; what is said of it, if anything."""
        self.seed = seed
        own = message(self.name, names or HAVE[self.name], seed)
        self._ready(gathered.contributing(LINEAGE), own)

    def counts(self, total):
        """There are counts against this total."""
        of = contributed.read_total(total)[0].total
        self._ready(gathered.counting(of), counted(self.name, HAVE[self.name], total, self.seed))

    def _ready(self, purpose, own):
        letter = self.sums.ready("r1", purpose, own)
        self.box += [] if letter is None else [letter]


class GatheredFleet:
    """`lost`: by device the step from which it says nothing more."""

    def __init__(self, folder: Path, masks=MASKS, lost=None) -> None:
        self.folder, self.masks, self.lost, self.now = folder, masks, lost or {}, 1.0
        self.silent: set[str] = set()
        self.letters: list[tuple[str, str]] = []
        self.core = None
        self.start()
        contract = self.core.terms.expected.contract
        self.devices = {n: LedgerDevice(n, folder / n, contract) for n in HAVE}

    def start(self):
        """A new life of the coordinator; what it says first."""
        if self.core is not None:
            self.core.journal.close()
        rules = {"rules": RULES, "timeout": 60.0}
        self.core = made.ledger(self.folder / "journal", classes=CLASSES, masks=self.masks, **rules)
        said = self.core.recover(self.now) + self.core.greetings()
        # Births are retained: a coordinator that starts hears them again.
        return said + self.core.take([made.birth(name) for name in HAVE], self.now)

    def goes_on(self, crash=-1):
        """Until nobody has anything to say; all of them die after so many passes."""
        passes = 0
        while arrivals := self._arrivals():
            said = self.core.take(arrivals, self.now)
            if passes == crash:
                said = self.start()
                for device in self.devices.values():
                    device.start()
                    device.contributes(device.seed)
            self.delivered(said)
            passes += 1
            assert passes < 60, "nothing comes of it"
        return passes

    def _arrivals(self):
        found = []
        for name, device in self.devices.items():
            box, device.box = device.box, []
            for payload in box if name not in self.silent else []:
                kind = type(decode_letter(wire.unseal(payload)[1])).__name__
                if KINDS.get(self.lost.get(name)) == kind:
                    self.silent.add(name)
                    break
                self.letters.append((name, kind))
                found.append(arrived(name, payload))
        return found

    def delivered(self, publications):
        """Words of groups reach whom they are for."""
        for publication in publications:
            place = made.parsed(publication.topic)
            if place.kind in ("group", "box") and publication.payload:
                word = decode_letter(wire.unseal(publication.payload)[1])
                for name, device in self.devices.items():
                    if name not in self.silent and place.agent in (None, name):
                        device.sums.hears("r1", word)

    def waits(self, seconds):
        """Time passes, and whatever comes of it."""
        self.now += seconds
        said = self.core.take([], self.now)
        self.delivered(said)
        self.goes_on()
        return said

    def counted(self):
        """All is published, offered and counted; the state's hash."""
        said = self.waits(SETTLE) + self.core.greetings()
        total = next(payload for payload in made.totals(said) if payload)
        for device in self.devices.values():
            if device.name not in self.silent:
                device.counts(total)
        self.goes_on()
        self.core.take([], self.now + SETTLE)
        return self.core.state.sha256

    def close(self):
        """Let the files go."""
        self.core.journal.close()
        for device in self.devices.values():
            device.store.close()


def plain(folder, devices):
    """The hash of a ledger that these, with their seeds, told what anybody may read."""
    core = made.ledger(folder, classes=CLASSES, rules=RULES)
    try:
        core.take([made.birth(name) for name in devices], 1.0)
        told = [arrived(n, message(n, HAVE[n], seed)) for n, seed in devices.items()]
        core.take(told, 1.0)
        said = core.take([], 1.0 + SETTLE) + core.greetings()
        total = next(payload for payload in made.totals(said) if payload)
        counts = [arrived(n, counted(n, HAVE[n], total, seed)) for n, seed in devices.items()]
        core.take(counts, 1.0 + SETTLE)
        core.take([], 1.0 + 2 * SETTLE)
        return core.state.sha256
    finally:
        core.journal.close()
