"""What can go wrong at the coordinator, beside the errors everyone shares."""

from __future__ import annotations

from protofleet.errors import FleetError


class JournalError(FleetError):
    """The journal cannot be opened, read or written."""

    code = "journal"


class NoJournal(JournalError):
    """There is none where one was looked for."""


class Superseded(FleetError):
    """Another coordinator serves this fleet."""

    code = "superseded"
    exit_code = 4
