"""What two contributions of one device tell when some samples came between them."""

# A class mean times its count is a sum, and what two sums differ by is what came between: a single
# sample, as it is, however many stood there before. Rounding to the grid is all that is lost, and
# is multiplied by the count. Where a class is only said again after several samples changed, what
# is left over is the sum of those.

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

import numpy as np

from protofleet.statistics.contribution import Contribution
from protofleet.util import seeds
from protofleet.values.prototypes import Floats
from simulators.attacks.decoder import Decoder
from simulators.attacks.defences import Defences, spoken
from simulators.attacks.population import Population
from simulators.attacks.similarity import ssim

CANDIDATES = 200


@dataclass(frozen=True)
class SamplesBetween:
    """How well new samples are told from two contributions, mean over devices."""

    before: int  # samples of the class in the first
    new: int  # and how many more in the second
    cosine: float  # of the difference to a new one's true vector
    centred: float  # the same, both less the public mean of the class
    retrieved: float  # the nearest of the class's candidates is a new one
    chance: float
    ssim: float  # of the difference as an image to the likest new one
    devices: int


def between(one: Contribution, two: Contribution) -> dict[int, Floats]:
    """By class, the mean of what two has more than one."""
    totals = [
        {
            int(c): (n, n * row.astype(np.float64))
            for c, n, row in zip(
                own.means.classes.tolist(),
                np.asarray(own.means.counts).tolist(),
                own.means.vectors,
                strict=True,
            )
        }
        for own in (one, two)
    ]
    before, after = totals
    return {
        c: ((after[c][1] - before[c][1]) / (after[c][0] - before[c][0])).astype(np.float32)
        for c in before.keys() & after.keys()
        if after[c][0] > before[c][0]
    }


def differences(
    people: Population, decoder: Decoder, samples: int, devices: int, defences: Defences
) -> SamplesBetween | None:
    """Of devices that had so many samples of a class and went on collecting; None where nothing
    was said twice.
    """
    rng, private = seeds.generator("difference", samples), people.private
    results: list[tuple[float, ...]] = []
    for turn in range(devices):
        c, new = turn % people.classes, defences.changed
        rows = rng.permutation(private.of_class(c))
        owned, fresh = rows[: samples + new], rows[samples : samples + new]
        one, two = (
            spoken(private.features[part], private.labels[part], people.grid, defences)
            for part in (owned[:samples], owned)
        )
        if one is None or two is None:
            continue
        vector = between(one, two)[c]
        others = rows[samples + new :][: CANDIDATES - new]
        nearest = np.argmin(
            np.linalg.norm(private.features[np.concatenate([fresh, others])] - vector, axis=1)
        )
        centre = people.public.features[people.public.of_class(c)].mean(0)
        truths = private.features[fresh]
        results.append(
            (
                fmean(_cosine(vector, truth) for truth in truths),
                fmean(_cosine(vector - centre, truth - centre) for truth in truths),
                float(nearest < new),
                new / (new + len(others)),
                float(ssim(decoder.images(vector[None]), private.images[fresh]).max()),
            )
        )
    if not results:
        return None
    cosine, centred, retrieved, chance, like = map(fmean, zip(*results, strict=True))
    return SamplesBetween(
        samples, defences.changed, cosine, centred, retrieved, chance, like, len(results)
    )


def _cosine(one: Floats, two: Floats) -> float:
    lengths = float(np.linalg.norm(one) * np.linalg.norm(two))
    return float(one @ two) / max(lengths, 1e-12)
