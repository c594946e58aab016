"""Samples that a graph is calibrated and checked with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from protofleet.values.prototypes import Ints


@dataclass(frozen=True, eq=False)
class Trial:
    """Samples as they are stored, and their labels."""

    x: NDArray[Any]
    y: Ints


class Trials(NamedTuple):
    """Samples to calibrate a smaller graph with, and others to check every graph with."""

    calibration: Trial
    check: Trial
    measured: str = ""  # of which samples accuracy on the latter is; nothing: they have no labels
