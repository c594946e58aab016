"""Files that other processes read or fight over: one lock a directory, and writes that are whole or
not there.

Errors stay plain `OSError`s, and `Locked`: what they mean to a user, the caller says.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TextIO


class Locked(Exception):
    """Another process holds the lock; `holder` is its number, empty if it could not be written."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def lock(directory: Path) -> TextIO:
    """Hold a directory, which is made if need be, for as long as the returned file is open; or
    `Locked`, or `OSError`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    # Not "w": that would wipe the holder's number before the lock says whether we may.
    file = (directory / "lock").open("a+")
    try:
        # The kernel lets go of it when the process ends, however it ends: a lock that was merely a
        # file would outlive a crash.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read().strip()
        file.close()
        raise Locked(holder) from None
    # Who holds it is good to know; on a full disk the lock holds all the same.
    with contextlib.suppress(OSError):
        os.truncate(file.fileno(), 0)
        os.write(file.fileno(), str(os.getpid()).encode())
    return file


def write_whole(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Replace a file so that readers, and whoever starts after a crash, see the old or the new
    bytes and nothing between. `lasting` waits for the disk.
    """
    # In the same directory: a rename is one step only within a file system.
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        if lasting:
            # Before the rename: else a loss of power may keep the new name and lose what is in it.
            file.flush()
            os.fsync(file.fileno())
    new.replace(path)
