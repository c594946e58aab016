"""Whether what a device sees is still what it was: two numbers about its newest samples, which
nobody labelled, each with how far chance alone takes it.
"""

# Theory of operation
#
# A device that classifies puts its samples into blocks of BLOCK in the order of their coming, and
# remembers the newest KEPT: of each block the mean feature, and how many samples were unknown. From
# LEAST blocks on it reports
#
#   unknown   the share of samples that are like no class. The fleet's threshold was set so that a
#             promised share (5 %) of its own samples is beyond it
#   moved     the squared distance of the mean feature from where the device's labelled samples lie,
#             in units of a sample's variance (each feature by its own, then the mean over them)
#
# Which classes there are to see changes all day and is no drift. So the mean is not compared with
# one point, but with all mixtures of the classes' means: what differences of those span is taken
# off. Means are the device's own; of a class that it never labelled the fleet's, moved by the
# device's offset from the fleet. What is left tells of light, lens and view, and of things that are
# none of the classes. A device without labelled samples has the fleet's means alone, from which
# every camera lies off, so its number is shown and never judged.
#
# With r_b what is left of block b, the estimate is the mean of r_a·r_b over all pairs of different
# blocks: their noise is independent, so nothing of it is in there, whatever its size; that of the
# labelled means is subtracted. The standard error is the jackknife's over blocks: a camera on which
# photos come in bursts has blocks that differ more, hence a larger error. What was subtracted is
# noise of means that are the same for all blocks, so its own error (√2 of it, over the root of the
# number of directions in which samples vary) is added. What looks like the one
# before is not put into a block at all: two photos of one sample's class lie apart by 2 variances,
# so less than STILL of that is the same thing seen again, and no second sample.
#
# When is it too much? When it exceeds what is usual by more than t · error, where t is Student's
# quantile for that many blocks and LEVEL: of windows in which nothing changed one in a thousand is
# named, for each of the two numbers. What is usual of `unknown` is not the promised share for every
# device: devices lie apart, by τ² beyond what sampling explains (moments, from what devices
# counted). So a device's own counted share is believed by τ²/(τ² + p(1 − p)/n), and what is not
# explained is part of the error. Of `moved` the usual is 0.

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import SettingError
from protofleet.statistics.held_out import ODDITIES
from protofleet.statistics.reliability import STRETCH
from protofleet.values.prototypes import Ints

Matrix = NDArray[np.float64]

BLOCK, KEPT, LEAST = 10, 20, 5
STILL = 0.1
LEVEL = 1e-3


@dataclass(frozen=True, eq=False)
class DriftReference:
    """Where a device's samples are expected: classes by name, and the variance about them."""

    names: tuple[str, ...]
    means: Matrix  # [K, d]
    noise: Matrix  # [K], of each mean, in variances of a sample
    variances: Matrix  # [d]

    @staticmethod
    def of(
        fleet: Mapping[str, Matrix],
        variances: Matrix,
        own: Mapping[str, tuple[Matrix, int]] | None = None,
    ) -> DriftReference:
        """From the fleet's means, and the device's own with their samples."""
        labelled = own or {}
        shared = [name for name in labelled if name in fleet]
        samples = sum(labelled[name][1] for name in shared)
        offset = sum(
            (labelled[name][1] / samples * (labelled[name][0] - fleet[name]) for name in shared),
            start=np.zeros(len(variances)),
        )
        means = {name: mean + offset for name, mean in fleet.items()}
        noise = dict.fromkeys(means, 1 / samples if samples else 0.0)
        means |= {name: mean for name, (mean, _) in labelled.items()}
        noise |= {name: 1 / count for name, (_, count) in labelled.items()}
        # A feature that never varies would be divided by nothing.
        floor = np.maximum(variances, 1e-6 * variances.max(initial=0.0) + 1e-12)
        rows = np.stack([means[name] for name in means])
        return DriftReference(tuple(means), rows, np.array([noise[n] for n in means]), floor)

    def is_still(self, feature: Matrix, before: Matrix) -> bool:
        """Whether two samples are of one thing that did not change."""
        apart = ((feature - before) ** 2 / self.variances).mean()
        return bool(apart < 2 * STILL)


@dataclass(frozen=True, eq=False)
class DriftWindow:
    """The newest blocks."""

    means: Matrix  # [B, d]
    unknown: Matrix  # [B], shares
    answered: tuple[str, ...]  # every class that was answered in them


@dataclass(frozen=True)
class DriftReport:
    """What a device says of its window; of `moved` nothing, where nothing was there to compare."""

    blocks: int
    unknown: float
    unknown_error: float
    moved: float | None = None
    moved_error: float = 0.0
    labelled: bool = False  # it was compared with samples that the device labelled itself

    def __post_init__(self) -> None:
        # It comes over the wire.
        shares = (self.unknown, self.unknown_error)
        if not LEAST <= self.blocks <= KEPT or not all(0 <= share <= 1 for share in shares):
            raise SettingError(f"drift: shares of {LEAST} to {KEPT} blocks are due")
        moved = 0.0 if self.moved is None else self.moved
        if not (abs(moved) < 1e9 and 0 <= self.moved_error < 1e9):
            raise SettingError("drift: a distance and its error are due")

    @property
    def samples(self) -> int:
        """In all blocks."""
        return self.blocks * BLOCK

    @property
    def distance(self) -> float | None:
        """How far the mean moved, in standard deviations of a sample."""
        return None if self.moved is None else math.sqrt(max(self.moved, 0.0))


@dataclass(frozen=True)
class UsualShare:
    """Of samples that a device calls unknown while nothing is wrong."""

    share: float
    error: float = 0.0


def report(of: DriftWindow, reference: DriftReference | None, labelled: bool) -> DriftReport | None:
    """What there is to say; nothing of fewer blocks than LEAST."""
    blocks = len(of.means)
    if blocks < LEAST:
        return None
    share, error = float(of.unknown.mean()), float(of.unknown.std(ddof=1) / math.sqrt(blocks))
    moved = None if reference is None else _moved(of, reference)
    if moved is None:
        return DriftReport(blocks, _plain(share), _plain(error))
    return DriftReport(
        blocks, _plain(share), _plain(error), _plain(moved[0]), _plain(moved[1]), labelled
    )


def usual_share(
    promised: float, counted: Mapping[str, tuple[float, int]], agent: str
) -> UsualShare:
    """Of one device, by the shares that devices counted, and of how many samples."""
    usual = promised * (1 - promised)
    shares = [(share, samples) for share, samples in counted.values() if samples]
    number = sum(samples for _, samples in shares)
    apart = sum(samples * (share - promised) ** 2 for share, samples in shares)
    between = max(0.0, apart - max(len(shares) - 1, 0) * usual) / number if len(shares) > 1 else 0.0
    share, samples = counted.get(agent, (promised, 0))
    belief = between / (between + usual / samples) if between and samples else 0.0
    return UsualShare(promised + belief * (share - promised), math.sqrt(between * (1 - belief)))


def share_outside(odd: Ints, usual: tuple[float, float]) -> float:
    """Of a histogram of oddness (`reliability`), how much lies outside of what is usual."""
    upto = np.concatenate([[0], np.cumsum(odd)]) / max(int(odd.sum()), 1)
    edges = (np.arange(ODDITIES + 1) - ODDITIES // 2) * STRETCH
    below, most = np.interp(np.arcsinh(usual), edges, upto)
    return float(below + 1 - most)


def exceeds(of: DriftReport, usual: UsualShare) -> tuple[bool, bool]:
    """Whether more is unknown than is usual, and whether the mean moved."""
    from scipy.special import stdtrit  # comes with what coordinators have

    quantile = float(stdtrit(of.blocks - 1, 1 - LEVEL))
    # Blocks that happen to be alike are not without error: a share of so many samples has this.
    chance = max(of.unknown_error**2, usual.share * (1 - usual.share) / of.samples)
    unknown = of.unknown - usual.share > quantile * math.sqrt(chance + usual.error**2)
    moved = of.labelled and of.moved is not None and of.moved > quantile * of.moved_error
    return unknown, moved


def _moved(of: DriftWindow, reference: DriftReference) -> tuple[float, float] | None:
    """The estimate of the theory above, and its error."""
    places = [i for i, name in enumerate(reference.names) if name in of.answered]
    blocks, dim = len(of.means), len(reference.variances)
    if not places or of.means.shape[1] != dim or len(places) > dim // 2:
        return None
    scale = np.sqrt(reference.variances)
    classes = reference.means[places] / scale
    middle = classes.mean(0)
    # Any place among the classes' means is one of them plus differences: these are projected out.
    span, coordinates = np.linalg.qr((classes[1:] - classes[0]).T)
    rest = of.means / scale - middle
    mean = rest.mean(0) @ span
    rest = rest - (rest @ span) @ span.T
    products = rest @ rest.T
    whole, own = products.sum(), np.trace(products)
    estimate = (whole - own) / (blocks * (blocks - 1))
    # Without each block in turn: its row and column of the products are missing.
    others = whole - 2 * products.sum(1) + np.diag(products)
    without = (others - (own - np.diag(products))) / ((blocks - 1) * (blocks - 2))
    variance = (blocks - 1) / blocks * float(((without - without.mean()) ** 2).sum())
    dimensions = dim - len(places) + 1
    shares = _mixture(coordinates, mean)
    noise = float((shares**2 * reference.noise[places]).sum())
    error = math.sqrt(variance / dimensions**2 + 2 * noise**2 * _likeness(rest))
    return float(estimate) / dimensions - noise, error


def _likeness(rest: Matrix) -> float:
    """One over the number of directions in which samples vary as if by themselves: tr C² / (tr C)²,
    by how far blocks lie along each other.
    """
    off = rest - rest.mean(0)
    products = off @ off.T
    sizes = np.diag(products)
    along = (products**2).sum() - (sizes**2).sum()
    return float(min(along / max(sizes.sum() ** 2 - (sizes**2).sum(), 1e-300), 1.0))


def _mixture(coordinates: Matrix, mean: Matrix) -> Matrix:
    """Which share of each class makes this place among them; they add up to one."""
    classes = len(coordinates) + 1
    rest = np.linalg.lstsq(coordinates, mean, rcond=None)[0] if classes > 1 else np.zeros(0)
    shares = np.full(classes, 1 / classes)
    shares[1:] += rest
    shares[0] -= rest.sum()
    return shares


def _plain(value: float) -> float:
    """To six digits: what is beyond them is chance."""
    return float(f"{value:.6g}")
