"""What the daemon leaves for `edge-agent status`: one small file, replaced whole."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import protofleet
from edge_agent.daemon.deliver import LedgerStanding
from protofleet.metrics.durations import Durations
from protofleet.util.files import OWN_FILE, write_whole

NAME = "status.json"
NOTHING = LedgerStanding()


@dataclass(frozen=True)
class Status:
    """The daemon as it stands."""

    agent: str
    fleet: str
    broker: str
    pid: int
    connected: bool = False
    trouble: str = ""  # why there is no connection
    coordinator: bool = False
    run: str = ""
    epoch: int = -1
    method: str = ""
    round: int = 0
    phase: str = ""
    doing: str = "waiting"
    trained: int = 0
    refusal: str = ""
    samples: int = 0
    classes: tuple[str, ...] = ()
    accuracy: tuple[tuple[str, float], ...] = ()
    ledger: LedgerStanding = NOTHING
    bytes_today: int = 0
    bytes_total: int = 0  # since this process began
    bundle: str = ""  # the fleet's that is in use
    newest: str = ""  # the one that the fleet's channel names
    trainings: Durations = field(default_factory=Durations)
    version: str = protofleet.__version__
    training_pid: int | None = None


def write(folder: Path, status: Status, when: str) -> None:
    """Best effort: a full disk must not stop the daemon."""
    # Not lasting: it is written several times a round, and after a loss of power nothing in it is
    # true any more.
    text = json.dumps({"time": when, **asdict(status)}, indent=1)
    with suppress(OSError):
        write_whole(folder / NAME, text.encode(), lasting=False, mode=OWN_FILE)


def read(folder: Path) -> dict[str, Any]:
    """What the daemon said last; empty if it never did."""
    try:
        document = json.loads((folder / NAME).read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def alive(pid: object) -> bool:
    """Whether there is a process of this number."""
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # of another user, but there
    return True
