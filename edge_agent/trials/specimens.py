"""What a candidate is tried on: this device's own pictures, as many as a trial has time for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edge_agent.config import DataSection
from edge_agent.data import labelled
from protofleet.contract import Input
from protofleet.errors import DataError

LABELLED = 200  # at most

Read = Callable[[Input], NDArray[Any]]


@dataclass(frozen=True)
class TrialPicture:
    """One that both are shown, each at the size that it takes."""

    key: str
    label: str | None  # None: nobody said what it is
    kept: bool  # held back: nothing was learnt from it
    read: Read


def of_device(section: DataSection, data_dir: Path | None, kind: Input) -> list[TrialPicture]:
    """Labelled ones: those that were held back, then as many of the others as there is room for,
    drawn by what is in them.
    """
    if not section.source:
        return []
    pictures: list[TrialPicture] = []
    for part in ("test", "train"):
        rows = sorted(_samples(section, data_dir, kind, part), key=lambda p: _draw(p.key))
        pictures += rows[: LABELLED - len(pictures)]
    return pictures


def _samples(
    section: DataSection, data_dir: Path | None, kind: Input, part: Any
) -> Iterator[TrialPicture]:
    for sample in labelled.samples(section, data_dir, kind, part):
        yield TrialPicture(sample.key, sample.label, part == "test", _reader(sample, kind))


def _reader(sample: labelled.LabelledSample, kind: Input) -> Read:
    def read(wanted: Input) -> NDArray[Any]:
        if wanted != kind:
            raise DataError("this picture was read for another extractor")
        return sample.read()

    return read


def _draw(key: str) -> str:
    """In another order than their folder's, and the same each time."""
    return sha256(f"trial:{key}".encode()).hexdigest()
