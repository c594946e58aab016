"""Photographs as an extractor sees them, and who holds which: a domain is a camera."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import DataError
from protofleet.values.prototypes import Floats, Ints

HELD_BACK = 3  # every third of a class and domain is never learned from
ALL = 0  # shots: every label there is

Embed = Callable[[Sequence[Path]], Floats]


@dataclass(frozen=True, eq=False)
class Photographs:
    """Features [n, d], and of each photograph its class and its domain."""

    features: Floats
    labels: Ints
    domains: Ints
    classes: tuple[str, ...]
    domain_names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class HoldOut:
    """Rows that devices learn from, and rows that nobody does."""

    train: Ints
    test: Ints

    def of(self, photographs: Photographs, domain: int) -> Ints:
        """A device's rows to learn from."""
        rows: Ints = self.train[photographs.domains[self.train] == domain]
        return rows


def embedded(folder: Path, embed: Embed) -> Photographs:
    """`folder/<domain>/<class>/*`, each looked at once."""
    from edge_agent.data.files import find

    files = find(folder)
    if {file.group for file in files} == {""}:
        raise DataError(f"{folder}: no domains in it", "folders <domain>/<class>/* are due")
    classes = tuple(sorted({file.label for file in files}))
    domains = tuple(sorted({file.group for file in files}))
    return Photographs(
        embed([file.path for file in files]),
        np.array([classes.index(file.label) for file in files], np.int64),
        np.array([domains.index(file.group) for file in files], np.int64),
        classes,
        domains,
    )


def split(photographs: Photographs, seed: int, shots: int) -> HoldOut:
    """A third of each class and domain held back, and of the rest so many (0: all) learned from.

    The same photographs are held back for every number of shots, and more shots add to fewer.
    """
    rng = np.random.default_rng(seed)
    train: list[Any] = []
    test: list[Any] = []
    for domain in range(len(photographs.domain_names)):
        for label in range(len(photographs.classes)):
            here = (photographs.domains == domain) & (photographs.labels == label)
            rows = rng.permutation(np.flatnonzero(here))
            back = len(rows) // HELD_BACK
            test.append(rows[:back])
            train.append(rows[back:][: shots or None])
    return HoldOut(np.concatenate(train), np.concatenate(test))


def without(photographs: Photographs, rows: Ints, label: int) -> Ints:
    """Those of the rows that are of another class."""
    others: Ints = rows[photographs.labels[rows] != label]
    return others


def share(hits: NDArray[np.bool_]) -> float:
    """Of what is true; nothing is nothing."""
    return float(hits.mean()) if len(hits) else float("nan")
