"""What processes hold in memory together: proportional sizes (PSS), in which what several share
counts once. Nothing but the standard library, so that others' programs are measured by it, too.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.5  # s


@dataclass
class Footprint:
    """The largest that was seen."""

    bytes: int = 0
    processes: int = 0


@contextmanager
def watched_memory(pid: int, marked: str = "") -> Iterator[Footprint]:
    """Of this process and all below it, and of those whose command line has these words, and all
    below them.
    """
    most, over = Footprint(), threading.Event()

    def look() -> None:
        while True:
            each = [size for size in map(_proportional, family(pid, marked)) if size]
            if sum(each) > most.bytes:
                most.bytes, most.processes = sum(each), len(each)
            if over.wait(EVERY):
                return

    watcher = threading.Thread(target=look, name="memory", daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def family(pid: int, marked: str = "") -> set[int]:
    """Who is to be counted now."""
    below, members = defaultdict(list), {pid}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            # The name in brackets may have blanks; the parent is the second word after it.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            below[parent].append(int(folder.name))
            if marked and marked.encode() in (folder / "cmdline").read_bytes():
                members.add(int(folder.name))
    ahead = list(members)
    while ahead:
        for child in below[ahead.pop()]:
            if child not in members:
                members.add(child)
                ahead.append(child)
    return members


def _proportional(pid: int) -> int:
    """Bytes; 0 of who is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
