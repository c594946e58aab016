"""What operators may ask at any time: answered by the thread of whoever asks, from values that the
loop replaces and never changes, and from the journal as it was committed last.
"""

# Theory of operation
#
# A fusion may take many seconds, and a page that waits for it looks broken. Nothing here goes
# through the loop:
#
#   question        read from
#   status agents   the core's values
#   classes         the core's values: decisions as they were last read
#   rounds show     a reading connection to the journal, a fresh one each time: SQLite's log lets
#   events          others read while the coordinator writes, and they see whole commits
#   learning        both
#
# What a connection costs (a millisecond) is paid by who asks; a page asks at most once a second.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from coordinator.core import Core
from coordinator.journal.journal import Journal
from coordinator.ledger import display
from coordinator.service import status

PAGE = 200  # events, or rounds, at most in one answer
POINTS = 400  # measurements of a curve
READS = ("rounds", "show", "events", "learning")


def read(core: Core, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one of READS."""
    answers: dict[str, Callable[[Journal], dict[str, Any]]] = {
        "rounds": lambda journal: status.all_rounds(journal, int(arguments.get("last", 20))),
        "show": lambda journal: status.one_round(journal, int(arguments["round"])),
        "events": lambda journal: events(journal, arguments),
        "learning": lambda journal: learning(core, journal),
    }
    with reading(core) as journal:
        return answers[command](journal)


@contextmanager
def reading(core: Core) -> Iterator[Journal]:
    """The journal, for a moment."""
    journal = Journal.read(core.journal.directory)
    try:
        yield journal
    finally:
        journal.close()


def classes(core: Core) -> dict[str, Any]:
    """Every class, those that wait, and every earlier version."""
    return with_awaited(core, core.catalogue.listing(core.base_round, core.state))


def with_awaited(core: Core, listing: Mapping[str, Any]) -> dict[str, Any]:
    """And whose contributions are still to come."""
    online = {name for name, device in core.devices.items() if device.online}
    awaited = sorted(online - set(listing["contributors"])) if listing["bundle"] else []
    return {**listing, "awaited": awaited}


def events(journal: Journal, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A page of what happened, newest last."""
    before, last = arguments.get("before"), min(int(arguments.get("last", 50)), PAGE)
    rows = journal.history(
        str(arguments.get("kind", "")),
        str(arguments.get("agent", "")),
        before=None if before is None else int(before),
        last=last,
    )
    return {"events": rows, "kinds": journal.event_kinds(), "more": len(rows) == last}


def learning(core: Core, journal: Journal) -> dict[str, Any]:
    """How well the fleet does, over time and by class."""
    measured = journal.history("measured", last=POINTS)
    confusion = core.keeper.confusion
    return {
        "measured": [{"at": event["at"], **_measurement(event)} for event in measured],
        "classes": [] if confusion is None else _shown(core, confusion[0]),
        "confusion": [] if confusion is None else confusion[1].pairs.tolist(),
        "devices": [
            {"agent": d.agent, "accuracy": dict(d.accuracy)}
            for d in core.devices.values()
            if d.accuracy
        ],
    }


def _shown(core: Core, names: Sequence[str]) -> list[str]:
    """What these classes are shown by."""
    public = display.names_shown(core.keeper.version.names, core.catalogue.book)
    return [public[name] for name in names]


def _measurement(event: Mapping[str, Any]) -> dict[str, Any]:
    names = ("round", "version", "accuracy", "std", "held_out", "devices", "samples")
    return {name: event[name] for name in names if event.get(name) is not None}
