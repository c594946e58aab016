"""A ledger's total on disk, so that a start need not add up every contribution again: a copy that
may be removed at any time, and is believed by its hash alone.
"""

# Theory of operation
#
# Folding a contribution of 1,280 features takes 70 ms, so a thousand of them a minute. The total is
# 13 MB, and is written as it is, whole numbers with what is in it (whose contribution, its digest),
# to the file SNAPSHOT, or to the journal's server, so that whoever takes over has it; the journal's
# `meta` has its hash. File first, then the commit:
#
#   at the start                                         then
#   the hash is not the file's, or there is no file      all contributions are added up
#   what is in it is what the journal has                it is the ledger
#   the journal has some more                            these are added
#   something in it was replaced, or is gone             all contributions are added up: the bytes
#                                                        that would have to be taken away are gone
#
# Written when all stood still, if more than FEW contributions are in it, at most every so often
# (`keeper`), and when the service ends in good order. Removed when a device is forgotten, before
# anything else is done.
#
# A file that its writer's memory had damaged would carry the right hash. So while all stands still
# the contributions are added up again, one at a time (`Recheck`); where that comes to another total
# it is taken, and an error says so. `replay` and the proof of `forget` never look at this file.

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any

import numpy as np

from coordinator.journal.journal import Journal
from coordinator.ledger.ledger import Entry, Ledger, Place, Summand
from protofleet.errors import FusionError, WireError
from protofleet.settings.fields import to_plain
from protofleet.values import sums
from protofleet.values.prototypes import Tensors

SNAPSHOT = "ledger.snapshot"  # where it is; and what the journal calls its hash
FEW = 10  # contributions that are added up again in a second


def write(journal: Journal, ledger: Ledger) -> None:
    """Keep this total; the journal must be the one that it was made from."""
    about = {
        "lineage": ledger.lineage,
        "buckets": ledger.buckets,
        "ids": dict(ledger.ids),
        "entries": [
            [agent, source, *(to_plain(getattr(entry, f.name)) for f in fields(Entry))]
            for (agent, source), entry in ledger.entries.items()
        ],
    }
    arrays: dict[str, Any] = dict(sums.as_tensors(ledger.total).arrays)
    stored = io.BytesIO()
    np.savez(stored, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    data = stored.getvalue()
    with journal.commit():
        journal.put_aside(SNAPSHOT, data)
        journal.set_meta(SNAPSHOT, sha256(data).hexdigest())


def read(journal: Journal, lineage: str) -> Ledger | None:
    """The total as it was kept, if it is whole and of this lineage."""
    data = journal.aside(SNAPSHOT)
    if data is None or sha256(data).hexdigest() != journal.meta(SNAPSHOT):
        return None
    with (
        suppress(ValueError, KeyError, TypeError, OSError, zipfile.BadZipFile),
        np.load(io.BytesIO(data), allow_pickle=False) as file,
    ):
        about = json.loads(file["about"].tobytes())
        if about["lineage"] == lineage:
            arrays = {name: file[name] for name in file.files if name != "about"}
            entries = {
                (agent, source): Entry(digest, classes, tuple(members), holders)
                for agent, source, digest, classes, members, holders in about["entries"]
            }
            total = sums.from_tensors(Tensors(arrays))
            kept = Ledger(lineage, ids=about["ids"], total=total, buckets=about["buckets"])
            return kept.holding(entries)
    return None


def remove(journal: Journal) -> None:
    """Nothing of it is to stay."""
    journal.drop_aside(SNAPSHOT)


@dataclass(frozen=True, eq=False)
class Recheck:
    """Contributions added up again, and which are still to be."""

    ledger: Ledger
    open: tuple[Place, ...]
    unreadable: tuple[str, ...] = ()

    @staticmethod
    def of(ledger: Ledger) -> Recheck:
        """From the beginning."""
        empty = Ledger(ledger.lineage, buckets=ledger.buckets)
        return Recheck(empty, tuple(sorted(ledger.entries)))

    def agrees(self, ledger: Ledger) -> bool:
        """Whether that is what it came to; ids of classes tell of the order of arrivals."""
        one, other = (sums.digest(each.canonical()[1]) for each in (self.ledger, ledger))
        return one == other

    def step(self, reading: Callable[[str, str], Summand]) -> Recheck:
        """One more."""
        (agent, source), rest = self.open[0], self.open[1:]
        try:
            ledger = self.ledger.plus(agent, reading(agent, source))
        except (FusionError, WireError):
            return replace(self, open=rest, unreadable=(*self.unreadable, agent))
        return replace(self, ledger=ledger, open=rest)
