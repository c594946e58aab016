"""From photographs that nobody labelled to a fleet that knows them: accuracy against taps, for who
taps what the device's page asks for, and beside it for who labels at random.
"""

# How it is measured
#
# A third of each class and domain is held back and never shown to anybody; a domain is a device,
# and of all else QUEUE photographs wait there. A person goes from device to device and taps VISIT
# labels at each; then all contribute, and the fleet has another classifier. Devices say a class
# from `minimum` samples on. No device counts (that would take a minute a visit): shrinkage is by
# the evidence, and nothing is called unknown. What is asked is chosen by the page's functions.
#
#   queue     the first of the page's order
#   random    any that waits
#   doubt     the page's order without its look at what is alike: the least sure first
#   heaps     the largest heap of pictures that look alike is named at once, by what most of it is:
#             a tap for its name and one for each picture that does not belong to it, which the
#             person takes out; where there is no heap, as `queue`
#
# A tap is one label in the first three. Accuracy is the fleet's, on all that was held back.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from edge_agent.page.desk import DOUBTFUL
from edge_agent.recent import asking, grouping
from protofleet.statistics.closed_form import moments
from protofleet.statistics.contribution import RANK, Grid, contribution, fold
from protofleet.statistics.knowledge import Knowledge, knowledge
from protofleet.values.prototypes import Ints
from protofleet.values.sums import merge_all
from simulators.photos.photographs import ALL, Photographs, share, split

VISIT, QUEUE = 5, 500
Choice = Literal["queue", "random", "doubt", "heaps"]
CHOICES: tuple[Choice, ...] = ("queue", "random", "doubt", "heaps")
Say = Callable[[str], None]


@dataclass(frozen=True)
class TapsOptions:
    """What is run."""

    taps: int = 100
    seeds: int = 5
    minimum: int = 1  # samples of a class from which a device speaks of it
    choices: tuple[Choice, ...] = CHOICES


@dataclass(frozen=True)
class TapPoint:
    """After so many taps: how many labels that were, of how many classes, and what they came to."""

    taps: int
    labels: int
    classes: int
    accuracy: float


@dataclass
class _TappedDevice:
    """What waits at one device, and what was named there."""

    waiting: Ints
    named: Ints


def bench_taps(photographs: Photographs, options: TapsOptions, say: Say) -> dict[str, Any]:
    """Curves of every choice and seed, and their means at each number of taps."""
    curves: dict[str, list[list[TapPoint]]] = {}
    for choice in options.choices:
        curves[choice] = []
        for seed in range(options.seeds):
            say(f"{choice}, seed {seed + 1} of {options.seeds}")
            curves[choice].append(list(tapped(photographs, choice, seed, options)))
    return {
        "taps": options.taps,
        "seeds": options.seeds,
        "minimum": options.minimum,
        "classes": len(photographs.classes),
        "choices": {name: _table(seeds, options.taps) for name, seeds in curves.items()},
    }


def tapped(
    photographs: Photographs, choice: Choice, seed: int, options: TapsOptions
) -> Iterator[TapPoint]:
    """One person's evening, a point after each visit."""
    parts, rng = split(photographs, seed, ALL), np.random.default_rng([seed, 7])
    devices = [
        _TappedDevice(rng.permutation(parts.of(photographs, d))[:QUEUE], np.zeros(0, np.int64))
        for d in range(len(photographs.domain_names))
    ]
    grid = Grid.over(float(np.abs(photographs.features).max()))
    known: Knowledge | None = None
    taps, visit = 0, 0
    while taps < options.taps and any(len(device.waiting) for device in devices):
        device = devices[visit % len(devices)]
        visit += 1
        if not len(device.waiting):
            continue
        most = min(VISIT, options.taps - taps)
        for rows, cost in _chosen(photographs, device, choice, (known, rng), most):
            device.named = np.concatenate([device.named, rows])
            device.waiting = np.setdiff1d(device.waiting, rows)
            taps += cost
        known = _learned(photographs, devices, grid, options.minimum)
        labels = np.concatenate([device.named for device in devices])
        accuracy = 0.0
        if known is not None:
            best = known.labels(photographs.features[parts.test])
            accuracy = share(best == photographs.labels[parts.test])
        classes = len(np.unique(photographs.labels[labels]))
        yield TapPoint(taps, len(labels), classes, accuracy)


def _chosen(
    photographs: Photographs,
    device: _TappedDevice,
    choice: Choice,
    now: tuple[Knowledge | None, np.random.Generator],
    most: int,
) -> list[tuple[Ints, int]]:
    """What is named at one visit, and for how many taps."""
    known, rng = now
    waiting = device.waiting
    if choice == "random":
        return [(rng.permutation(waiting)[:most], min(most, len(waiting)))]
    x = photographs.features
    both = np.concatenate([waiting, device.named])
    unit = asking.directions(x[both])
    scores = np.zeros((len(waiting), 0)) if known is None else known.scores(x[waiting])
    doubt = asking.doubts(scores)
    if choice == "doubt":
        order = np.argsort(-doubt, kind="stable")
        return [(waiting[order[:most]], min(most, len(waiting)))]
    if choice == "heaps":
        own = unit[: len(waiting)]
        heap = _heap(photographs, waiting, own, doubt)
        if heap is not None:
            return [heap]
    order = asking.order(unit[: len(waiting)], unit[len(waiting) :], doubt)
    return [(waiting[order[:most]], min(most, len(waiting)))]


def _heap(
    photographs: Photographs, waiting: Ints, unit: Any, doubt: Any
) -> tuple[Ints, int] | None:
    """The largest heap of what is doubtful, without what does not belong to it."""
    odd = np.flatnonzero(doubt > DOUBTFUL)
    if len(odd) < grouping.LEAST:
        return None
    labels = grouping.heaps(unit[odd] @ unit[odd].T)
    heap = waiting[odd[labels == 0]]
    if not len(heap):
        return None
    names, counts = np.unique(photographs.labels[heap], return_counts=True)
    own = heap[photographs.labels[heap] == names[counts.argmax()]]
    return own, 1 + len(heap) - len(own)


def _learned(
    photographs: Photographs, devices: list[_TappedDevice], grid: Grid, minimum: int
) -> Knowledge | None:
    total = _total(photographs, devices, grid, minimum)
    return None if total is None else knowledge(total)


def _total(photographs: Photographs, devices: list[_TappedDevice], grid: Grid, minimum: int) -> Any:
    folded = []
    for device in devices:
        y = photographs.labels[device.named]
        names, counts = np.unique(y, return_counts=True)
        rows = device.named[np.isin(y, names[counts >= minimum])]
        if len(rows):
            own = contribution(photographs.features[rows], photographs.labels[rows], grid, RANK)
            folded.append(fold(own, grid))
    return moments(merge_all(folded)) if folded else None


def _table(seeds: list[list[TapPoint]], taps: int) -> list[dict[str, float]]:
    """Means over seeds at every VISIT taps; a visit that took more counts from its end on."""
    rows = []
    for at in range(VISIT, taps + 1, VISIT):
        points = [[p for p in curve if p.taps <= at] for curve in seeds]
        last = [p[-1] if p else TapPoint(0, 0, 0, 0.0) for p in points]
        accuracy = np.array([p.accuracy for p in last])
        rows.append(
            {
                "taps": at,
                "accuracy": float(accuracy.mean()),
                "spread": float(accuracy.std(ddof=1)) if len(last) > 1 else 0.0,
                "labels": float(np.mean([p.labels for p in last])),
                "classes": float(np.mean([p.classes for p in last])),
            }
        )
    return rows
