"""Devices in buckets by the hash of their name, an exact sum each; and which of the buckets are
heard: those that the others' means do not speak against.
"""

# Theory of operation
#
# A sum has no worst case: one device of ten that gives its classes' means under wrong names decides
# what the fleet answers, and says nothing that limits could refuse. So a fleet may deal its devices
# to B buckets. Each has sums of its own, and is one voice:
#
#   fold     `placed`    the rows of a contribution under keys of its bucket: k becomes k · B + b
#   merge, minus         as ever; rows of equal keys are added, others stand beside each other
#   fuse     `doubted`   which voices are not heard
#            `heard`     the sum of the others, under the keys that a fleet without buckets has
#
# So a total of buckets is exact, free of order, mergeable, and what was added can be taken away.
# Where nobody is doubted what is heard is the plain total, to the bit: nothing is lost to honest
# fleets. With B = 1 there is one voice, and nothing changes.
#
# Two voices a, b that share classes are compared by their means, classes of many samples first:
#
#   gap_ab = Σ_c w_c ‖μ_ac − μ_bc‖² / Σ_c w_c − v · (classes shared) / Σ_c w_c
#   w_c    = 1/(1/n_ac + 1/n_bc)
#   v      = a sample's mean squared distance to its class's mean     (median over voices)
#   δ²     = squared distance of two classes' means                   (median over voices)
#
# The second term is what chance alone makes of the first. They agree if gap < δ²/2: nearer than
# half of what lies between classes. A liar may say the truth of most classes, and all in all agree
# with everybody; so they clash, too, if for a single class
#
#   ‖μ_ac − μ_bc‖² − 2v (1/n_ac + 1/n_bc) > δ²/4
#
# that is if a mean lies where another class begins, beyond all chance. Who does not agree clashes.
# Of two that clash one lies, and nothing says which. Then, as long as there is a voice
#
#   half   that clashes with half of all that are left, and with WITNESSES at least, or if none is,
#   few    that clashes with FEW or more, with more than agree with it, and with more than any of
#          those clashes with with whom it does
#
# the one that clashes with most is doubted (of equals all), and those that are left are looked at
# again. Honest voices do not clash with each other. Of n voices with f < n/2 liars an honest one
# clashes with f at most, so the first rule never takes it for a liar, whatever liars agree on; a
# liar that speaks of what most others have is found by it. The second is for a liar that speaks to
# few: that there is one of it is likelier than that all of them lie. Two liars cannot turn it on
# an honest voice, three can on one that has a class alone.
#
# Medians hold as long as liars are fewer than half. Where half or more would have to go the fleet
# has no majority that agrees (its devices see different worlds: photographs, drawings, sketches),
# and all are heard.
#
# Why not a median of voices, number by number? Where data differ each class has two or three
# voices, and of those a median is the mean, or one device; two liars of five are most voices of
# most classes. Measured (MNIST, Dir(0.1), five devices, two collude): median and what lies near it
# 60.5 %, this 98.7. What a voice says of all its classes is the evidence, not of one at a time.
#
# What it does not see: lies about classes of which nobody else speaks, or few; spreads that are too
# large. There admission's limits are all there is. Two devices of one bucket are heard or doubted
# together, so there should be several times more buckets than devices. It costs the memory of one
# total a bucket that anybody is in.

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from protofleet.statistics.contribution import MEANS, SCATTER
from protofleet.util import seeds
from protofleet.values.prototypes import Ints
from protofleet.values.sums import Partial, Sum, merge_all

Matrix = NDArray[np.float64]
Pairs = NDArray[np.bool_]  # [voices, voices], symmetric

WITNESSES = 2  # fewer than these say nothing: of two that differ nothing says who lies
FEW = 3  # as many at least where they are not half of all
NEARER = 0.5  # of what lies between classes
CLASH = 0.25  # of a single class, beyond chance: its mean lies in the half that is another's


def bucket_of(agent: str, buckets: int, *run: seeds.Name) -> int:
    """Whose bucket it is, by name; of `run`, where that is to be drawn anew for each."""
    return 0 if buckets == 1 else seeds.seed_of(*run, "bucket", agent) % buckets


def placed(partial: Partial, agent: str, buckets: int, *run: seeds.Name) -> Partial:
    """One upload's sums, in its device's bucket; bags are apart as they are."""
    if buckets == 1:
        return partial
    bucket = bucket_of(agent, buckets, *run)
    return {
        name: replace(part, keys=part.keys * buckets + bucket) if isinstance(part, Sum) else part
        for name, part in partial.items()
    }


def heard(total: Partial, buckets: int, doubted: Collection[int]) -> Partial:
    """The sums of all buckets but these, as a fleet without buckets has them."""
    if buckets == 1:
        return total
    sums = {name: part for name, part in total.items() if isinstance(part, Sum)}
    every = {bucket for part in sums.values() for bucket in (part.keys % buckets).tolist()}
    return merge_all(
        {name: _of_bucket(part, buckets, bucket) for name, part in sums.items()}
        for bucket in sorted(every - set(doubted))
    )


def doubted(total: Partial, buckets: int) -> frozenset[int]:
    """The buckets that are not heard; nobody where no majority agrees."""
    means, scatter = total.get(MEANS), total.get(SCATTER)
    if buckets == 1 or not isinstance(means, Sum) or not isinstance(scatter, Sum):
        return frozenset()
    voices = _Voices.of(means, scatter, buckets)
    agree, contradict = voices.compared()
    return frozenset(voices.buckets[clashing(agree, voices.clashes() | contradict)].tolist())


def clashing(agree: Pairs, clash: Pairs) -> NDArray[np.bool_]:
    """Which of several others clash with, as the theory above has it."""
    left = np.ones(len(clash), np.bool_)
    while True:
        against, beside = clash[:, left].sum(1), (agree & ~clash)[:, left].sum(1)
        rivals = np.where(clash & left, against, 0).max(1, initial=0)
        half = (against >= WITNESSES) & (2 * against >= left.sum())
        few = (against >= FEW) & (against > beside) & (against > rivals)
        suspect = left & (half if (left & half).any() else few)
        if not suspect.any():
            return ~left
        left &= ~(suspect & (against == against[suspect].max()))
        if 2 * left.sum() <= len(left):
            return np.zeros(len(left), np.bool_)


@dataclass(frozen=True, eq=False)
class _Voices:
    """What each bucket says: a row of means a class and voice, and how far its samples lie off."""

    buckets: Ints
    keys: Ints  # class of each row
    voice: Ints  # place of its bucket
    counts: Matrix
    means: Matrix
    variances: Matrix  # [voices]

    @staticmethod
    def of(means: Sum, scatter: Sum, buckets: int) -> _Voices:
        weighty, spoke = means.weights > 0, scatter.weights > 0
        keys, width = means.keys[weighty], means.low.shape[1]
        counts, rows = means.weights[weighty].astype(np.float64), means.mean()[weighty]
        spoken = scatter.keys[spoke] % buckets
        voice = np.searchsorted(spoken, keys % buckets)
        diagonal = np.cumsum([0, *range(width, 1, -1)])  # in the triangle that a scatter is
        # One after the other: as floats all of them at once would be as large as the total again.
        triangles = (scatter.only(scatter.keys == key).total()[0] for key in scatter.keys[spoke])
        sizes = np.array([entries[diagonal].sum() for entries in triangles])
        within = sizes - np.bincount(voice, counts * (rows**2).sum(1), len(spoken))
        spare = np.maximum(np.bincount(voice, counts - 1, len(spoken)), 1)
        return _Voices(spoken, keys // buckets, voice, counts, rows, within / spare)

    def compared(self) -> tuple[Pairs, Pairs]:
        """Which pairs agree, and which contradict each other."""
        size = len(self.buckets)
        total, weight, shared = (np.zeros((size, size)) for _ in range(3))
        for key in np.unique(self.keys):
            at = self.keys == key
            pairs = np.ix_(self.voice[at], self.voice[at])
            chance = 1 / self.counts[at]
            closeness = 1 / (chance[:, None] + chance[None])
            total[pairs] += closeness * _squared(self.means[at])
            weight[pairs] += closeness
            shared[pairs] += 1
        usual, apart = self._usual, self._apart()
        compared = (shared > 0) & ~np.eye(size, dtype=np.bool_) & (apart > 0)
        near = total - usual * shared < NEARER * apart * weight
        return compared & near, compared & ~near

    def clashes(self) -> Pairs:
        """Which pairs clash in some class, beyond all chance."""
        size = len(self.buckets)
        clashing, usual, apart = np.zeros((size, size), np.bool_), self._usual, self._apart()
        for key in np.unique(self.keys) if apart > 0 else ():
            at = self.keys == key
            chance = 1 / self.counts[at]
            far = _squared(self.means[at]) - 2 * usual * (chance[:, None] + chance[None])
            clashing[np.ix_(self.voice[at], self.voice[at])] |= far > CLASH * apart
        return clashing & ~np.eye(size, dtype=np.bool_)

    @property
    def _usual(self) -> float:
        """v."""
        return float(np.median(self.variances))

    def _apart(self) -> float:
        """δ²; 0 where nobody has two classes."""
        usual, own = self._usual, []
        for voice in range(len(self.buckets)):
            at = self.voice == voice
            if at.sum() > 1:
                chance = 1 / self.counts[at]
                far = _squared(self.means[at]) - usual * (chance[:, None] + chance[None])
                own.append(float(np.median(far[np.triu_indices(len(far), 1)])))
        return float(np.median(own)) if own else 0.0


def _squared(rows: Matrix) -> Matrix:
    """Squared distances of all pairs of rows."""
    sizes = (rows**2).sum(1)
    far: Matrix = np.maximum(sizes[:, None] + sizes[None] - 2 * rows @ rows.T, 0)
    return far


def _of_bucket(part: Sum, buckets: int, bucket: int) -> Sum:
    rows = part.only(part.keys % buckets == bucket)
    return rows.keyed(rows.keys // buckets)
