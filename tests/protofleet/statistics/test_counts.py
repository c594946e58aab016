"""Counts add up, survive the wire and the exact sums, and are refused where they contradict
themselves.
"""

from dataclasses import fields, replace

import numpy as np
import pytest

from protofleet import wire
from protofleet.errors import FusionError
from protofleet.statistics import counts
from protofleet.statistics.closed_form import SHRINKAGE, basis, moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.leave_one_out import (
    STEP,
    TEMPERATURES,
    Samples,
    left_out,
    log_loss,
)
from protofleet.values.sums import digest, merge, merge_all, subtract
from tests.protofleet.statistics.test_contribution import samples

DEVICES = [samples(seed, n=30) for seed in (1, 2, 3)]
SPACE = basis(moments(merge_all([fold(contribution(*one, Grid()), Grid()) for one in DEVICES])))
COUNTS = [counts.count(SPACE, Samples.of(*one)) for one in DEVICES]


def same(one, other):
    return all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        for field in fields(counts.Counts)
    )


def test_they_are_those_of_each_sample_left_out():
    row, column = 4, 6
    by_hand = 0.0
    for one in DEVICES:
        own, at = Samples.of(*one), SPACE.whitened(SHRINKAGE[row])
        usual = float(left_out(at, own, 0.0).distances.mean())
        by_hand += float(log_loss(left_out(at, own, usual), TEMPERATURES[column]).sum())
    whole = COUNTS[0].plus(COUNTS[1]).plus(COUNTS[2])
    assert whole.samples == 90
    assert whole.losses[row, column] * STEP == pytest.approx(by_hand, abs=90 * STEP)
    choice = whole.choice
    assert whole.at(choice).samples == 90
    assert (
        whole.losses.min()
        == whole.losses[SHRINKAGE.index(choice.shrinkage), TEMPERATURES.index(choice.temperature)]
    )


def test_as_exact_sums_they_add_up_in_any_order_and_can_be_taken_away():
    one, two, three = map(counts.fold, COUNTS)
    forth, back = merge(merge(one, two), three), merge(three, merge(two, one))
    assert digest(forth) == digest(back)
    assert same(counts.total(forth), COUNTS[0].plus(COUNTS[1]).plus(COUNTS[2]))
    assert digest(subtract(forth, two)) == digest(merge(one, three))
    assert counts.total({}) is None


def test_the_wire_brings_what_was_counted():
    parts = wire.as_received(counts.parts_of(COUNTS[0]), "half")
    assert same(counts.from_parts(parts), COUNTS[0])


def test_a_sample_that_is_alone_in_its_class_is_not_counted():
    lonely = np.arange(3.0)[:, None] * np.ones(12), np.arange(3)
    own = counts.count(SPACE, Samples.of(*lonely))
    assert own.samples == 3  # the fleet has others of these classes
    alone = basis(moments(fold(contribution(*lonely, Grid()), Grid())))
    nobody = counts.count(alone, Samples.of(*lonely))
    assert (nobody.samples, nobody.choice) == (0, None)
    assert same(counts.from_parts(counts.parts_of(nobody)), nobody)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples": 10**6}, "at most 4096 samples"),
        ({"losses": COUNTS[0].losses + 2**50}, "of a bounded loss"),
        ({"odd": COUNTS[0].odd + 1}, "histograms of all samples"),
        ({"right": COUNTS[0].sure + 1}, "more are right"),
        ({"sure": COUNTS[0].sure[:2]}, "whole numbers of shape"),
        ({"distances": -COUNTS[0].distances - 1}, "whole numbers of shape"),
    ],
)
def test_made_up_counts_are_refused(change, words):
    with pytest.raises(FusionError, match=words):
        counts.from_parts(counts.parts_of(replace(COUNTS[0], **change)))
