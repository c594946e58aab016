"""A disk that can be filled: a small file system in memory, in a mount namespace that only its
processes see.

Needs root on Linux. What is on it is reached from outside through /proc, and gone when the block is
left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from simulators.faults.testbed import until


@dataclass(frozen=True)
class SmallDisk:
    """Mounted at `at`, inside the namespace of process `holder`."""

    at: Path
    holder: int

    @property
    def outside(self) -> Path:
        """The same directory as everyone else sees it."""
        return Path(f"/proc/{self.holder}/root{self.at}")

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command, run where the disk is."""
        return ["nsenter", f"--mount=/proc/{self.holder}/ns/mnt", f"--wd={Path.cwd()}", *command]

    def fill(self, leave: int = 0) -> None:
        """Not a byte is left, or only so many."""
        ballast = self.outside / "ballast"
        # Unbuffered and in pages: the last write that fits has been made when one fails, and what
        # SQLite finds is a disk with less than a page left.
        with ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
            if leave:
                file.truncate(max(0, file.tell() - leave))

    def empty(self) -> None:
        """There is room again."""
        (self.outside / "ballast").unlink(missing_ok=True)

    def copy_to(self, target: Path) -> None:
        """What is on it, for later."""
        shutil.copytree(
            self.outside,
            target,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("*.sock", "ballast"),
        )


def possible() -> bool:
    """Whether this machine lets us."""
    return os.geteuid() == 0 and all(
        shutil.which(program) for program in ("unshare", "nsenter", "mount")
    )


@contextmanager
def small_disk(at: Path, kilobytes: int) -> Iterator[SmallDisk]:
    """For as long as the block lasts."""
    at.mkdir(parents=True, exist_ok=True)
    # A namespace of its own: the mount is gone with its last process, whatever becomes of the test,
    # and no other process of the machine sees it. `exec` makes the holder the sleeping process
    # itself, so that killing it leaves no orphan that holds the mount.
    mount = (
        f"mount -t tmpfs -o size={kilobytes}k tmpfs '{at}'"
        f" && touch '{at}/mounted' && exec sleep infinity"
    )
    holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", mount])
    try:
        disk = SmallDisk(at, holder.pid)
        until((disk.outside / "mounted").exists, "the small disk")
        yield disk
    finally:
        holder.kill()
        holder.wait()
