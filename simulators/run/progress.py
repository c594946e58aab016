"""Live progress on stderr: rounds, accuracy, bytes, time left; plain lines where nobody watches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from protofleet.scoring import primary
from simulators.run.result import Row
from simulators.run.rounds import Watch


@contextmanager
def watched(label: str, rounds: int, *, alone: bool = True) -> Iterator[Watch]:
    """A callback to be told of every round; of several runs at a time none has a bar."""
    console = Console(stderr=True)
    if console.is_jupyter and alone:
        with _in_place(label, rounds) as watch:
            yield watch
        return
    # In a log a bar that is drawn over itself is noise: about ten lines a run instead.
    if not console.is_terminal or not alone:
        yield lambda row: _line(console, label, rounds, row)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[now]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=rounds, now="starting")
        yield lambda row: bar.update(task, completed=row.round, now=words(row))


@contextmanager
def _in_place(label: str, rounds: int) -> Iterator[Watch]:
    """One line below a notebook's cell, written anew each round."""
    shown: Any = import_module("IPython.display")  # it has no types
    began = time.monotonic()
    # Rich's own bar wants ipywidgets, and each `print` in a notebook stays there.
    handle = shown.display(shown.Pretty(f"{label}  starting"), display_id=True)

    def watch(row: Row) -> None:
        seconds = time.monotonic() - began
        remain = seconds / max(row.round, 1) * (rounds - row.round)
        ahead = f"{remain:.0f} s left" if row.round < rounds else f"{seconds:.1f} s"
        handle.update(shown.Pretty(f"{label}  round {row.round}/{rounds}  {words(row)}  {ahead}"))

    yield watch


def _line(console: Console, label: str, rounds: int, row: Row) -> None:
    every = max(1, rounds // 10)
    if row.round % every == 0 or row.round == rounds:
        console.print(
            f"{label}  round {row.round}/{rounds}  {words(row)}  {row.seconds:.2f} s",
            highlight=False,
            soft_wrap=True,
        )


def words(row: Row) -> str:
    """A round in a few words."""
    name = primary(row.accuracy)
    accuracy = (
        f"{name} {100 * row.accuracy[name]:.1f} %" if name in row.accuracy else "not evaluated"
    )
    return f"{accuracy}  up {size(row.up_bytes)}  down {size(row.down_bytes)}"


def size(count: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
