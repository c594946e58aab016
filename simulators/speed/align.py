"""What matrix products save on the server: ProtoNorm's alignment and FedPAC's D, beside the
formulas as written.

Both sides of a row start from the same numbers, take the same number of steps and run on one
thread; blocks take turns, so a busy moment hits all alike, and the fastest block counts.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protofleet.toolbox import alignment
from protofleet.toolbox.heads import Collaboration

DIM = 512
STEPS = {10: 100, 100: 10, 1000: 2}  # steps a block
BLOCK_BYTES = 256 * 2**20  # of pairwise differences held at once by the formula as written

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AlignRow:
    """Both times (per step; for D, for all devices), and the largest difference of the outcomes."""

    what: str
    written_ms: float
    ours_ms: float
    difference: float
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times as fast ours is."""
        return self.written_ms / self.ours_ms


def bench_align(repeats: int = 3) -> list[AlignRow]:
    """The rows of the table."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return [
            *(_alignment(k, steps, repeats) for k, steps in STEPS.items()),
            _collaboration(repeats),
        ]


def pairwise_forces(points: Array) -> Array:
    """ProtoNorm (11) by pairwise differences; a block of rows at a time where K × K × d would not
    fit.
    """
    rows = block_rows(len(points))
    forces = []
    for start in range(0, len(points), rows):
        gap = points[start : start + rows, None] - points[None]
        squared = (gap * gap).sum(-1)
        squared[np.arange(len(gap)), np.arange(start, start + len(gap))] = np.inf
        forces.append(((1.0 / squared)[..., None] * gap).sum(1))
    return np.concatenate(forces)


def block_rows(k: int) -> int:
    """How many rows of differences fit."""
    return max(1, min(k, BLOCK_BYTES // (k * DIM * 8)))


def _alignment(k: int, steps: int, repeats: int) -> AlignRow:
    points = alignment.units(
        np.random.default_rng(0).standard_normal((k, DIM)), np.random.default_rng(1)
    )

    def after(force: alignment.Force) -> Array:
        return next(itertools.islice(alignment.iterations(points, force), steps - 1, None))

    times, (written, ours) = _best(
        [lambda: after(pairwise_forces), lambda: after(alignment.forces)], repeats
    )
    rows = block_rows(k)
    note = ""
    if rows < k:
        whole = f"the whole array would be {8 * k * k * DIM / 1e9:.1f} GB"
        note = f"written: in blocks of {rows} rows, {whole}"
    per_step = [1e3 * seconds / steps for seconds in times]
    difference = float(np.abs(written - ours).max())
    return AlignRow(f"alignment, K = {k:,}, d = {DIM}", per_step[0], per_step[1], difference, note)


def _collaboration(repeats: int, devices: int = 8, classes: int = 10) -> AlignRow:
    h = np.random.default_rng(0).standard_normal((devices, classes, DIM)) / DIM**0.5

    def written() -> Array:
        distances = np.zeros((devices, devices, devices))
        for i in range(devices):
            for j, k in itertools.combinations_with_replacement(range(devices), 2):
                outer = sum(np.outer(a, b) for a, b in zip(h[i] - h[j], h[i] - h[k], strict=True))
                distances[i, j, k] = distances[i, k, j] = np.trace(np.asarray(outer))
        return distances

    def ours() -> Array:
        flat = h.reshape(devices, -1)
        # FedPAC's D is made of differences only, so all may be moved; near zero less is lost of
        # them.
        flat = flat - flat.mean(0)
        among = Collaboration(np.zeros(devices), flat @ flat.T)
        return np.stack([among.distances(i) for i in range(devices)])

    times, (one, two) = _best([written, ours], repeats)
    what, difference = (
        f"FedPAC's D, {devices} devices, {classes} classes",
        float(np.abs(one - two).max()),
    )
    return AlignRow(
        what, 1e3 * times[0], 1e3 * times[1], difference, "written: traces of outer products"
    )


def _best(contenders: list[Callable[[], Any]], repeats: int) -> tuple[list[float], list[Any]]:
    times, outcomes = [np.inf] * len(contenders), [None] * len(contenders)
    for _ in range(repeats):
        for at, run in enumerate(contenders):
            start = time.perf_counter()
            outcomes[at] = run()
            times[at] = min(times[at], time.perf_counter() - start)
    return times, outcomes
