"""How the process itself is getting on: rounds and fusions counted, queues, disk, certificates.

Part of what `status` says. Called while the loop goes on, by other threads: it reads values that
are replaced and never changed, and asks no database.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from coordinator.core import Core
from coordinator.journal.database import FILE, address_of
from coordinator.members.office import FOLDER

# What the office keeps (`coordinator.members.office`), by the name under which its end is told.
CERTIFICATES = {
    "authority": "authority.pem",
    "coordinator": "coordinator.pem",
    "broker": "broker/broker.pem",
}


def vitals(core: Core, queues: Mapping[str, int], wall: float | None = None) -> dict[str, Any]:
    """As a document; `queues` is how much waits where."""
    directory, held_out = core.journal.directory, core.keeper.held_out
    wall, numbered = time.time() if wall is None else wall, core.keeper.numbered_at
    return {
        **core.tally.document,
        "version_age_seconds": None if numbered is None else max(0.0, wall - numbered),
        "held_out": {
            "samples": held_out.samples,
            "accuracy": held_out.accuracy if held_out.samples else None,
            "loss": held_out.loss if held_out.samples else None,
        },
        "queues": dict(queues),
        "disk": disk(directory),
        "certificates": certificates(directory / FOLDER),
    }


def disk(directory: Path) -> dict[str, int | None]:
    """Bytes that are free there, and that the journal's file and its log take; None: nobody here
    can tell, as of a journal on a server.
    """
    free: int | None = None
    with suppress(OSError):
        free = shutil.disk_usage(directory).free
    if address_of(directory):
        return {"free_bytes": free, "journal_bytes": None}
    size = 0
    for name in (FILE, f"{FILE}-wal"):
        with suppress(OSError):
            size += (directory / name).stat().st_size
    return {"free_bytes": free, "journal_bytes": size}


def certificates(folder: Path) -> dict[str, float]:
    """When each ends, as a time of the wall's clock; of those that there are."""
    ends = {}
    for name, file in CERTIFICATES.items():
        path = folder / file
        with suppress(OSError, ValueError):
            ends[name] = _end(path, path.stat().st_mtime_ns)
    return ends


@lru_cache(maxsize=16)
def _end(path: Path, stamp: int) -> float:
    """Of the file as it was then: it is asked for with every status, and changes once in months."""
    from protofleet.errors import TrustError
    from protofleet.trust import certificates as x509

    try:
        return x509.of_pem(path).not_valid_after_utc.timestamp()
    except TrustError as error:
        raise ValueError(str(error)) from error
