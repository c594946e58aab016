"""Devices in buckets by the hash of their name: an exact sum each, and at the end what most of the
buckets agree on.
"""

# Theory of operation
#
# A mean has no worst case: one device of ten that lies moves it wherever it likes, as far as
# admission lets it. A median of devices would hold, but a fusion that keeps every device apart is
# no sum any more: it cannot be merged, grows with the fleet, and nobody can blind it. Between the
# two lie buckets: each device belongs to one for the whole run, by the hash of its name, and each
# bucket has an exact sum of its own, whose mean is one voice.
#
#   fold     `placed`    (`statistics.voices`) the rows of an upload under keys of its bucket
#   merge, minus         as ever: rows of equal keys are added, others stand beside each other
#   fuse     `agreed`    one row a key again, of what the buckets' means agree on
#
# A row's key k becomes k · B + b, so a total of buckets is one `Sum` like any other: exact, free of
# order, mergeable, and what was added can be taken away again. With B = 1 nothing changes, to the
# bit.
#
# What is agreed on. c, the median of the buckets' means number by number, is in the middle of the
# honest ones as long as they are most. It is not what is published: devices whose data differ have
# means that differ, the median listens to one of them a number, and those that it never listens to
# drift off (FedProto, MNIST, ten devices by Dir(0.1): 96.2 % by the mean, 95.8 by the median, 82.7
# where every device began from weights of its own). So c says who is believed: all buckets no
# further from it than NEAR times their median distance. Of these the weighted mean is taken, and
# where nobody lies it usually is the mean of all.
#
# Of two buckets that differ nothing says who lies, and classes that two devices hold are common. So
# before that two buckets are compared by all that both speak of: rows of the same key should lie
# nearer to each other than rows of different ones. They agree below LIKE of that, contradict each
# other above UNLIKE, and in between nothing is known. As long as there is a bucket that WITNESSES
# others or more contradict, and more than agree with it, the one that most contradict is not heard
# (of equals the one with whom fewer agree; of those that are equal in that, too, all), unless
# nobody else speaks of a key. Where half or more would have to go all are heard.
# Why a share, and not a distance as in `statistics.voices`: networks that learn drift apart, and
# the same distance is honest in an early round and a lie in a late one. In the first rounds devices
# that began alike contradict each other, too (FedProto, MNIST, Dir(0.1), five and ten devices: from
# the fourth on none that is honest is left out). Two of five that collude may be heard then, and
# what the others learn of them stays (30 % of 98): so a method that trains on what comes back needs
# a guard, too.
#
# What it withstands. For a key of m buckets, fewer than m / 2 of them liars: what they say is
# either left out or within NEAR times the distance at which most honest buckets are. So there
# should be several times more buckets than devices, two of which would otherwise share a voice. Who
# lies only where no majority can tell is not found out; there admission's limits are all there is.
#
# Means of very few samples are far off whoever sends them, and hide who lies: a method that has
# buckets should send no such means.
#
# What it costs. Memory is a row a bucket and key.

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from protofleet.statistics.voices import WITNESSES, Pairs
from protofleet.values.nearest import squared_distances
from protofleet.values.prototypes import Ints
from protofleet.values.sums import Sum

Matrix = NDArray[np.float64]

MOST_WEIGHT = 2**31 - 1  # of a row that is made here: no sum takes a larger one
NEAR = 4.0  # times the median distance to the median: who is further away is not believed
LIKE, UNLIKE = 0.5, 0.8  # of the distance between keys: below they agree, above they contradict
TINY = 1e-9  # buckets that say the same differ by less


def agreed(part: Sum, buckets: int) -> Sum:
    """For each key what most buckets' means agree on, with the weight that all have together."""
    if buckets == 1:
        return part
    weighty = part.weights > 0
    rows, weights = part.mean()[weighty], part.weights[weighty]
    keys, voices = part.keys[weighty] // buckets, part.keys[weighty] % buckets
    doubted = _doubted(rows, keys, voices)
    distinct = np.unique(keys)
    shared = np.zeros((len(distinct), *rows.shape[1:]))
    together = np.zeros(len(distinct), np.int64)
    for at, key in enumerate(distinct):
        mine = keys == key
        trusted = mine & ~np.isin(voices, doubted)
        believed = trusted if trusted.any() else mine
        shared[at] = _shared(rows[believed], weights[believed])
        together[at] = weights[mine].sum()
    return Sum.of(distinct, shared, np.minimum(together, MOST_WEIGHT))


def _doubted(rows: Matrix, keys: Ints, voices: Ints) -> Ints:
    """Buckets that most others contradict."""
    distinct = np.unique(voices)
    places = [np.flatnonzero(voices == voice) for voice in distinct]
    agree, contradict = (np.zeros((len(distinct),) * 2, np.bool_) for _ in range(2))
    for one, two in itertools.combinations(range(len(distinct)), 2):
        at, to = places[one], places[two]
        far = _unlike(rows[at], keys[at], rows[to], keys[to])
        agree[one, two] = agree[two, one] = far < LIKE
        contradict[one, two] = contradict[two, one] = far > UNLIKE
    return distinct[_minority(agree, contradict)]


def _minority(agree: Pairs, contradict: Pairs) -> NDArray[np.bool_]:
    """Which of several are contradicted by most of the others, as the theory above has it."""
    left = np.ones(len(agree), np.bool_)
    while True:
        against, beside = contradict[:, left].sum(1), agree[:, left].sum(1)
        suspect = left & (against >= WITNESSES) & (against > beside)
        if not suspect.any():
            return ~left
        worst = suspect & (against == against[suspect].max())
        worst &= beside == beside[worst].min()
        left &= ~worst
        if 2 * left.sum() <= len(left):
            return np.zeros(len(left), np.bool_)


def _unlike(one: Matrix, ones: Ints, two: Matrix, twos: Ints) -> float:
    """How far rows of the same key lie apart, as a share of how far those of different keys do; not
    a number where there are none to compare.
    """
    flat, other = one.reshape(len(one), -1), two.reshape(len(two), -1)
    far = squared_distances(flat, other)
    same = ones[:, None] == twos
    beside = ~same & (same.any(1)[:, None] | same.any(0))
    apart = float(far[beside].mean()) if beside.any() else 0.0
    return float(far[same].mean()) / apart if apart > 0 else np.nan


def _near(rows: Matrix) -> NDArray[np.bool_]:
    """Which of these are no further from their median than most."""
    flat = rows.reshape(len(rows), -1)
    off = np.linalg.norm(flat - np.median(flat, axis=0), axis=1)
    near: NDArray[np.bool_] = off <= NEAR * float(np.median(off)) + TINY
    return near


def _shared(rows: Matrix, weights: Ints) -> Matrix:
    """The weighted mean of the rows near their median; `rows` are of one key, a bucket each."""
    near = _near(rows)
    mean: Matrix = np.average(rows[near], axis=0, weights=weights[near])
    return mean
