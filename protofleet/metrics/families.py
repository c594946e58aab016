"""Measurements as values: a family has a name, a kind, a sentence and its points.

Functions that make families of a status document are pure, and need no library; `exposition` makes
Prometheus's text of them.
"""

# Theory of operation
#
# Names go by Prometheus's own conventions, and `family` refuses one that does not:
#
#   a name says                          as
#   whose it is                          protofleet_ at its beginning
#   what it is measured in               a base unit: _seconds, _bytes, _ratio (0 to 1, not percent)
#   that it only grows                   _total at the end of a counter, and of nothing else
#   a point in time                      _timestamp_seconds
#   words (a version, a run's name)      _info, with the value 1
#
# What nobody knows is absent: an accuracy that was never measured is not 0. So a mapping's or a
# document's None makes no point, and a family without points is left out by `exposition`.
#
# Labels must be few: each set of values is a series that Prometheus keeps for weeks. What names a
# device, a class or anything else that grows goes through `capped`.

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

Kind = Literal["gauge", "counter", "histogram", "info"]
Labels = tuple[tuple[str, str], ...]
Number = float | int | bool | None
T = TypeVar("T")

NAME = re.compile(r"protofleet_[a-z][a-z0-9_]*")
LONGEST_LABEL = 100  # characters: names of devices have 63, reasons are words of ours


class Point(NamedTuple):
    """One number of a family, and what tells it from the others."""

    value: float
    labels: Labels = ()
    suffix: str = ""  # behind the family's name, as text formats want it


@dataclass(frozen=True)
class Family:
    """A measurement, all of its points."""

    name: str
    kind: Kind
    help: str
    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        counts, words = self.name.endswith("_total"), self.name.endswith("_info")
        if not NAME.fullmatch(self.name) or counts != (self.kind == "counter"):
            raise ValueError(f"{self.name!r} is no name of a {self.kind}")
        if words != (self.kind == "info"):
            raise ValueError(f"{self.name!r} is no name of a {self.kind}")


def gauge(name: str, help: str, value: Number) -> Family:
    """What goes up and down."""
    return Family(name, "gauge", help, _points([((), value)]))


def counter(name: str, help: str, value: Number) -> Family:
    """What grows until the process ends."""
    return Family(name, "counter", help, _points([((), value)]))


def info(name: str, help: str, **words: str) -> Family:
    """Words, as labels of a 1."""
    labels = tuple((key, _label(word)) for key, word in words.items())
    return Family(name, "info", help, (Point(1.0, labels),))


def by(
    kind: Literal["gauge", "counter"],
    name: str,
    help: str,
    label: str,
    values: Mapping[str, Number],
) -> Family:
    """The same by a label."""
    rows = [(((label, _label(key)),), value) for key, value in sorted(values.items())]
    return Family(name, kind, help, _points(rows))


def histogram(
    name: str, help: str, edges: Sequence[float], counts: Sequence[int], total: float
) -> Family:
    """How often something was within each of these edges, the last count beyond them all."""
    below, points = 0, []
    for edge, count in zip([*map(_edge, edges), "+Inf"], counts, strict=True):
        below += count
        points.append(Point(float(below), (("le", edge),), "_bucket"))
    points += [Point(float(below), (), "_count"), Point(float(total), (), "_sum")]
    return Family(name, "histogram", help, tuple(points))


def capped(names: Iterable[T], most: int) -> tuple[tuple[T, ...], int]:
    """The first so many, and how many others there are."""
    every = tuple(names)
    return every[:most], max(0, len(every) - most)


def _points(rows: Iterable[tuple[Labels, Number]]) -> tuple[Point, ...]:
    return tuple(Point(float(value), labels) for labels, value in rows if value is not None)


def _edge(edge: float) -> str:
    # As Prometheus's own clients write them.
    return repr(float(edge))


def _label(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:LONGEST_LABEL])
