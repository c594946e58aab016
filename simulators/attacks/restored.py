"""What restored images are worth: how like a true one they are, beside what a stranger's upload of
the same class would have given, and whether they point at the right samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from simulators.attacks.similarity import Images, closest, error, ssim


@dataclass(frozen=True, eq=False)
class Restoration:
    """One vector of an upload, and what stands behind it."""

    image: Images  # restored
    own: Images  # the samples behind it
    others: Images  # that it might be confused with
    stranger: Images  # restored from as many images of the same class that are no sample of its


@dataclass(frozen=True)
class Restored:
    """Means over uploads."""

    samples: int  # behind a class, in the upload
    vectors: int  # that were looked at
    ssim: float  # to the likest of the samples behind the vector
    stranger: float  # the same of a stranger's: what the class alone tells
    error: float  # mean squared, to the nearest of them
    retrieved: float  # how often the nearest of all candidates is one of them
    chance: float  # how often that would be by chance


def judged(samples: int, restorations: Sequence[Restoration]) -> Restored:
    """The figures."""
    hits = [closest(r.image, np.concatenate([r.own, r.others])) < len(r.own) for r in restorations]
    return Restored(
        samples,
        len(restorations),
        fmean(float(ssim(r.image[None], r.own).max()) for r in restorations),
        fmean(float(ssim(r.stranger[None], r.own).max()) for r in restorations),
        fmean(float(error(r.image[None], r.own).min()) for r in restorations),
        fmean(map(float, hits)),
        fmean(len(r.own) / (len(r.own) + len(r.others)) for r in restorations),
    )
