"""One process at a time holds a data directory."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from coordinator.errors import JournalError


def locked(directory: Path) -> TextIO:
    """The lock, held until it is closed; `JournalError` where another process has it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("a+")
    except OSError as error:
        raise JournalError(f"{directory} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        owner = lock.read().strip()
        lock.close()
        raise JournalError(
            f"{directory} is in use by another coordinator (process {owner})"
        ) from None
    with suppress(
        OSError
    ):  # who holds it is good to know; on a full disk the lock holds all the same
        os.truncate(lock.fileno(), 0)
        os.write(lock.fileno(), str(os.getpid()).encode())
    return lock
