"""Counts add up, survive the wire and the exact sums, and are refused where they contradict
themselves.
"""

from dataclasses import replace

import numpy as np
import pytest

from protofleet import wire
from protofleet.errors import FusionError
from protofleet.masking.layout import Layout
from protofleet.statistics import counts
from protofleet.statistics.closed_form import SHRINKAGE, moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.held_out import (
    CONFIDENCES,
    ODDITIES,
    STEP,
    TEMPERATURES,
    TIE,
    Samples,
    folds,
    held_out,
    log_loss,
    scored,
)
from protofleet.values.sums import digest, merge, merge_all, subtract
from tests.protofleet.statistics.test_contribution import samples

DEVICES = [samples(seed, n=30) for seed in (1, 2, 3)]
SENT = [contribution(*one, Grid()) for one in DEVICES]
WHOLE = moments(merge_all([fold(own, Grid()) for own in SENT]))
OWN = [Samples.of(*one, own) for one, own in zip(DEVICES, SENT, strict=True)]
COUNTS = [counts.count(WHOLE, own) for own in OWN]
ROUND = np.where(np.arange(ODDITIES) < 4, 2**62, 0)  # in 64 bits it adds up to nothing


def same(one, other):
    """In all that travels as sums: who is taken for whom is for people, and goes beside it."""
    names = vars(one).keys() - {"confused"}
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_they_are_those_of_each_sample_held_out():
    row, column = 4, 6
    by_hand = 0.0
    for own in OWN:
        parts = [scored(part, WHOLE.classes, SHRINKAGE[row]) for part in folds(WHOLE, own)]
        out = held_out(parts, WHOLE.classes)
        by_hand += float(log_loss(out, TEMPERATURES[column]).sum())
    whole = COUNTS[0].plus(COUNTS[1]).plus(COUNTS[2])
    assert whole.samples == 90
    assert whole.losses[row, column] * STEP == pytest.approx(by_hand, abs=90 * STEP)
    choice = whole.choice
    assert whole.at(choice).samples == 90
    chosen = SHRINKAGE.index(choice.shrinkage), TEMPERATURES.index(choice.temperature)
    assert whole.losses[chosen] <= whole.losses.min() + 90 * TIE


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
    sent = contribution(*lonely, Grid())
    alone, others = fold(sent, Grid()), [fold(own, Grid()) for own in SENT]
    own = Samples.of(*lonely, sent)
    # The fleet has others of these classes, or it has not.
    assert counts.count(moments(merge_all([alone, *others])), own).samples == 3
    nobody = counts.count(moments(alone), own)
    assert (nobody.samples, nobody.choice) == (0, None)
    assert same(counts.from_parts(counts.parts_of(nobody)), nobody)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples": 10**6}, "at most 4096 samples"),
        ({"losses": COUNTS[0].losses + 2**50}, "of a bounded loss"),
        ({"odd": COUNTS[0].odd + 1}, "histograms of all samples"),
        ({"odd": COUNTS[0].odd + ROUND}, "histograms of all samples"),
        ({"sure": COUNTS[0].sure + ROUND[:CONFIDENCES]}, "histograms of all samples"),
        ({"right": COUNTS[0].sure + 1}, "more are right"),
        ({"sure": COUNTS[0].sure[:2]}, "whole numbers of shape"),
        ({"distances": -COUNTS[0].distances - 1}, "whole numbers of shape"),
    ],
)
def test_made_up_counts_are_refused(change, words):
    with pytest.raises(FusionError, match=words):
        counts.from_parts(counts.parts_of(replace(COUNTS[0], **change)))


def test_masked_they_come_to_the_same():
    folded = [counts.fold(own) for own in COUNTS]
    layout = Layout.of(counts.rooms(), folded[0], len(folded))
    total = layout.zeros()
    for own in folded:
        total = total.plus(layout.pack(own))
    assert digest(layout.unpack(total)) == digest(merge_all(folded))
