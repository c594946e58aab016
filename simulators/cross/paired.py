"""Contenders compared seed by seed: accuracies by classifier, paired differences with their
interval, bytes, rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Literal

from simulators.run.intervals import Difference, difference

Document = Mapping[str, Any]
Pick = Literal["last", "best"]


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
