"""Contenders compared seed by seed: accuracies by classifier, paired differences with their
interval, bytes, rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean, stdev
from typing import Any, Literal

from scipy.stats import t as student

Document = Mapping[str, Any]
Pick = Literal["last", "best"]


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences, and its 95 % interval by Student's t."""

    mean: float
    low: float
    high: float
    pairs: int

    @property
    def above(self) -> bool:
        """Whether the whole interval is."""
        return self.pairs > 1 and self.low > 0


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Of equally long sequences, pair by pair."""
    gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
    mean = fmean(gaps)
    if len(gaps) < 2:
        # One pair has no spread, and so nothing is above anything by it.
        return Difference(mean, float("-inf"), float("inf"), len(gaps))
    # Mean ± t(0.975, n - 1) · s / √n of the differences, not of the accuracies: the same seed deals
    # the same devices to both, and how hard these are drops out of a difference.
    half = float(student.ppf(0.975, len(gaps) - 1)) * stdev(gaps) / len(gaps) ** 0.5
    return Difference(mean, mean - half, mean + half, len(gaps))


def accuracy(document: Document, evaluator: str, pick: Pick) -> float | None:
    """By this classifier, in the last round or in the best; None where the method has no such."""
    if pick == "last":
        last = document["final"]["each"].get(evaluator)
        return None if last is None else float(last)
    best = document["best"]["each"].get(evaluator)
    return None if best is None else float(best["accuracy"])


def paired(
    ours: Mapping[int, Document], theirs: Mapping[int, Document], mine: str, other: str, pick: Pick
) -> Difference | None:
    """Our classifier `mine` less their classifier `other`, over the seeds that both have."""
    pairs = [
        (a, b)
        for seed in sorted(ours.keys() & theirs.keys())
        if (a := accuracy(ours[seed], mine, pick)) is not None
        and (b := accuracy(theirs[seed], other, pick)) is not None
    ]
    return difference(*zip(*pairs, strict=True)) if pairs else None


def bytes_a_device(document: Document) -> float:
    """What a device sent and received in the whole run, on average."""
    return crossed(document)[-1]


def crossed(document: Document) -> list[float]:
    """The same up to each round."""
    devices = len(document["partition"]["agents"])
    return [
        total / devices
        for total in accumulate(row["up_bytes"] + row["down_bytes"] for row in document["rounds"])
    ]


def within(document: Document, evaluator: str, spent: float) -> float | None:
    """The accuracy in the last round by which a device had sent and received no more than so many
    bytes.
    """
    fitting = [
        row["accuracy"].get(evaluator)
        for row, total in zip(document["rounds"], crossed(document), strict=True)
        if total <= spent
    ]
    return fitting[-1] if fitting else None


def rounds_to(document: Document, evaluator: str, accuracy: float) -> int | None:
    """The first round in which the classifier is as good as that."""
    for row in document["rounds"]:
        if row["accuracy"].get(evaluator, 0.0) >= accuracy:
            return int(row["round"])
    return None
