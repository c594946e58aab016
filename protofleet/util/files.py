"""Files that other processes read or fight over: one lock a directory, writes that are whole or not
there, and what no other user of the machine may read.

Errors stay plain `OSError`s, and `Locked`: what they mean to a user, the caller says.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path
from typing import BinaryIO, TextIO

OWN_FOLDER, OWN_FILE = 0o700, 0o600  # for nobody but the user whose process it is
ANY_FILE = 0o666  # as the process's umask has it
OTHERS = 0o077
Stamp = tuple[int, int]


class Locked(Exception):
    """Another process holds the lock; `holder` is its number, empty if it could not be written."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def lock(directory: Path) -> TextIO:
    """Hold a directory, which is made if need be, for as long as the returned file is open; or
    `Locked`, or `OSError`.
    """
    own_folder(directory)
    path = own_file(directory / "lock")
    # Not "w": that would wipe the holder's number before the lock says whether we may.
    file = path.open("a+")
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


def free(directory: Path) -> bool:
    """Whether nobody holds the lock of this directory just now."""
    try:
        file = (directory / "lock").open()
    except FileNotFoundError:
        return True
    with file:
        try:
            # Shared, and given back at once: whoever wants to hold it is in nobody's way.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def own_folder(path: Path) -> Path:
    """A directory that no other user may enter, made if need be, as are those above it. One that is
    there stays as it is: it may be shared on purpose, and what lies in it has a mode of its own
    (see `exposed`).
    """
    # Not `parents=True`: that makes those above as the umask has them.
    if not path.parent.exists():
        own_folder(path.parent)
    path.mkdir(exist_ok=True, mode=OWN_FOLDER)
    return path


def own_file(path: Path) -> Path:
    """A file that no other user may read, made if need be; one of an earlier release that they
    could is theirs no more.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, OWN_FILE)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & OTHERS:
            os.fchmod(descriptor, OWN_FILE)
    finally:
        os.close(descriptor)
    return path


def own_database(path: Path) -> Path:
    """The same for one of SQLite's. What SQLite makes beside it has its mode; what a life that was
    killed left there may not.
    """
    for beside in (path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        if beside.exists():
            own_file(beside)
    return own_file(path)


def new_file(path: Path) -> BinaryIO:
    """A file of our own made anew, with its rights from the first byte: a mode that is set after
    something was written comes too late, and `O_EXCL` follows no link that is in the way.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN_FILE), "wb")


def exposed(directory: Path) -> str:
    """What to tell the owner of a directory that others may look into; empty where they may not."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    if not mode & OTHERS:
        return ""
    return (
        f"{directory} is open to other users of this machine (mode {mode:04o}); "
        f"its files are not, but `chmod 700 {directory}` hides their names as well"
    )


def stamp_of(path: Path) -> Stamp | None:
    """By what a file that was written anew is known; nothing of one that has gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def write_whole(path: Path, data: bytes, *, lasting: bool = True, mode: int = ANY_FILE) -> None:
    """Replace a file so that readers, and whoever starts after a crash, see the old or the new
    bytes and nothing between. `lasting` waits for the disk.
    """
    # In the same directory: a rename is one step only within a file system.
    new = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        if mode == OWN_FILE:
            os.fchmod(file.fileno(), mode)  # it may have been left there by a crash
        file.write(data)
        if lasting:
            # Before the rename: else a loss of power may keep the new name and lose what is in it.
            file.flush()
            os.fsync(file.fileno())
    new.replace(path)
