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
#   fold     `placed`    the rows of an upload under keys of its bucket
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
# a bucket that is far off in most of the keys that three or more speak of is doubted, and is not
# heard of any other key either, unless nobody else speaks of it.
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
#
# Means with scatter (`statistics.contribution`). Means first, M_c. About these each bucket's
# scatter is, from its own sums alone,
#
#   S_b = (T_b − Σ_c N_bc (M_bc M_cᵀ + M_c M_bcᵀ − M_c M_cᵀ)) / N_b
#
# the covariance of its samples about the fleet's means. What is agreed on is a mean of some of the
# S_b, so it is a covariance again, and of all of them it is the fleet's. It goes back into a total,
# T = N · S + Σ N_c M_c M_cᵀ, so that whatever makes a classifier of totals reads it as one.

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from protofleet.statistics.contribution import MEANS, SCATTER, square, triangle
from protofleet.util import seeds
from protofleet.values.prototypes import Ints
from protofleet.values.sums import Partial, Sum

Matrix = NDArray[np.float64]

MOST_WEIGHT = 2**31 - 1  # of a row that is made here: no sum takes a larger one
NEAR = 2.0  # times the median distance to the median: who is further away is not believed
MAJORITY = 3  # of this many buckets it is seen who is far off
OFTEN = 3  # keys of that kind, at least, before anybody is doubted
TINY = 1e-9  # buckets that say the same differ by less


def placed(partial: Partial, agent: str, buckets: int, *run: seeds.Name) -> Partial:
    """One upload's sums, in its device's bucket of this run; bags are apart as they are."""
    if buckets == 1:
        return partial
    bucket = seeds.seed_of(*run, "bucket", agent) % buckets
    return {
        name: replace(part, keys=part.keys * buckets + bucket) if isinstance(part, Sum) else part
        for name, part in partial.items()
    }


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


def agreed_contributions(total: Partial, buckets: int) -> Partial:
    """Means and scatter as one device would have them that knows what is agreed on."""
    means, scatter = total.get(MEANS), total.get(SCATTER)
    if buckets == 1 or not isinstance(means, Sum) or not isinstance(scatter, Sum):
        return total
    shared = agreed(means, buckets)
    centres, width = shared.mean(), means.low.shape[1]
    own, counts = means.mean(), means.weights.astype(np.float64)[:, None]
    weighty = np.flatnonzero(scatter.weights > 0)
    spreads = np.zeros((len(weighty), width, width))
    for place, at in enumerate(weighty):
        mine = (means.keys % buckets == scatter.keys[at] % buckets) & (means.weights > 0)
        centre = centres[np.searchsorted(shared.keys, means.keys[mine] // buckets)]
        crossed = (counts[mine] * own[mine]).T @ centre
        off = crossed + crossed.T - (counts[mine] * centre).T @ centre
        spreads[place] = (square(scatter.total()[at], width) - off) / scatter.weights[at]
    if not len(spreads):
        return {**total, MEANS: shared}
    samples = shared.weights.astype(np.float64)[:, None]
    whole = _shared(spreads, scatter.weights[weighty])
    whole += (samples * centres).T @ centres / samples.sum()
    weight = np.array([min(int(shared.weights.sum()), MOST_WEIGHT)])
    return {**total, MEANS: shared, SCATTER: Sum.of([0], triangle(whole)[None], weight)}


def _doubted(rows: Matrix, keys: Ints, voices: Ints) -> Ints:
    """Buckets that are far off in most of what three or more speak of."""
    spoke, against = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for key in np.unique(keys):
        mine = np.flatnonzero(keys == key)
        if len(mine) >= MAJORITY:
            spoke[mine], against[mine] = 1, ~_near(rows[mine])
    distinct, place = np.unique(voices, return_inverse=True)
    times, off = np.bincount(place, spoke), np.bincount(place, against)
    doubted: Ints = distinct[(times >= OFTEN) & (2 * off > times)]
    return doubted


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
