"""Honest counts are all used, to the bit; those that are far from most are not."""

from dataclasses import replace

import numpy as np
import pytest

from protofleet.statistics import agreement, counts, voices
from protofleet.statistics.closed_form import moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.held_out import WORST, Samples
from protofleet.values.sums import merge_all
from tests.protofleet.statistics.test_contribution import samples
from tests.protofleet.statistics.test_counts import same

DEVICES = [samples(seed, n=30) for seed in range(1, 6)]
SENT = [contribution(*one, Grid()) for one in DEVICES]
WHOLE = moments(merge_all([fold(own, Grid()) for own in SENT]))
COUNTS = dict(
    enumerate(
        counts.count(WHOLE, Samples.of(*one, own)) for one, own in zip(DEVICES, SENT, strict=True)
    )
)
MOST = int(WORST * 2**16)
LIES = {
    "all is lost but where all is shrunk": lambda own: replace(
        own, losses=np.where(np.arange(own.losses.size)[::-1].reshape(own.losses.shape), MOST, 0)
    ),
    "samples lie nowhere": lambda own: replace(own, distances=own.distances * 0 + MOST),
    "samples lie where their class does": lambda own: replace(own, distances=own.distances // 9),
    "all samples are as odd as can be": lambda own: replace(
        own,
        odd=np.where(np.arange(own.odd.shape[1]) == own.odd.shape[1] - 1, own.samples, 0)
        + np.zeros_like(own.odd),
    ),
    "more samples than all others": lambda own: times(own, 99),
}


def times(own, factor):
    numbers = {name: value * factor for name, value in vars(own).items() if name != "confused"}
    return counts.Counts(**numbers)


def test_where_nobody_lies_all_are_used():
    assert not agreement.doubts(COUNTS)
    (first, *others) = COUNTS.values()
    whole = first
    for own in others:
        whole = whole.plus(own)
    assert same(agreement.together(COUNTS), whole)
    assert agreement.together({}) is None


@pytest.mark.parametrize("lie", LIES)
def test_counts_that_are_far_from_most_are_not_used(lie):
    assert agreement.doubts({**COUNTS, 2: LIES[lie](COUNTS[2])}) == {2}


def test_two_that_agree_are_no_majority_and_of_two_nobody_is_doubted():
    lie = next(iter(LIES.values()))
    several = {voice: lie(own) if voice < 2 else own for voice, own in COUNTS.items()}
    assert agreement.doubts(several) == {0, 1}
    assert not agreement.doubts({0: several[0], 4: several[4]})
    nothing = times(COUNTS[0], 0)
    assert not agreement.doubts({0: several[0], 3: nothing, 4: several[4]})


def test_each_bucket_has_its_own_counts():
    sums = merge_all(
        voices.placed(counts.fold(own), f"camera-{voice}", 512) for voice, own in COUNTS.items()
    )
    apart = agreement.by_bucket(sums, 512)
    assert len(apart) == len(COUNTS)
    bucket = voices.bucket_of("camera-3", 512)
    assert same(apart[bucket], COUNTS[3])
    (together,) = agreement.by_bucket(merge_all(map(counts.fold, COUNTS.values())), 1).values()
    assert same(together, agreement.together(COUNTS))
    assert agreement.by_bucket({}, 512) == {}
