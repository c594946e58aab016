"""Held out is as if never seen: against sums that were made without."""

from dataclasses import replace

import numpy as np
import pytest

from protofleet.statistics import held_out as module
from protofleet.statistics.closed_form import SHRINKAGE, head, moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.held_out import (
    FOLDS,
    TEMPERATURES,
    Samples,
    choose,
    folds,
    held_out,
    scored,
)
from protofleet.values.sums import merge, merge_all
from tests.protofleet.statistics.test_contribution import samples

GRID = Grid()
OTHERS = fold(contribution(*samples(1, n=60), GRID), GRID)


def own(seed, rank, **how):
    x, y = samples(seed, **how)
    sent = contribution(x, y, GRID, rank)
    return Samples.of(x, y, sent), moments(merge(OTHERS, fold(sent, GRID)))


@pytest.mark.parametrize("rank", [0, 3, 64])
def test_a_folds_sums_are_those_of_a_fleet_that_never_had_it(rank):
    of, whole = own(2, rank, n=50)
    parts = list(folds(whole, of))
    assert len(parts) == FOLDS
    assert sorted(len(part.labels) for part in parts) == sorted([len(p.labels) for p in parts])
    assert sum(len(part.labels) for part in parts) == 50
    for part in parts:
        out = (of.features[:, None] == part.features).all(2).any(1)
        rest = contribution(of.features[~out], of.labels[~out], GRID, rank)
        due = moments(merge(OTHERS, fold(rest, GRID)))
        assert part.moments.counts == pytest.approx(due.counts)
        assert part.moments.means == pytest.approx(due.means, abs=1e-9)
        assert part.moments.within == pytest.approx(due.within, abs=1e-9)


def test_scores_and_distances_are_those_of_the_head_without_the_fold():
    of, whole = own(3, 64, n=30)
    parts, shrinkage = list(folds(whole, of)), 0.3
    out = held_out([scored(part, whole.classes, shrinkage) for part in parts], whole.classes)
    usual, at = float(out.distances.mean()), 0
    for part in parts:
        rows, end = head(part.moments, shrinkage, usual), at + len(part.labels)
        due = part.features @ rows.weight.T.astype(float) + rows.bias
        assert out.scores[at:end] == pytest.approx(due, abs=1e-3)
        assert (whole.classes[out.labels[at:end]] == part.labels).all()
        at = end
    assert at == 30


def test_samples_that_were_trained_on_stay_in_every_sum():
    of, whole = own(7, 64, n=40)
    unseen = np.arange(40) % 4 == 0
    parts = list(folds(whole, replace(of, unseen=unseen)))
    out = np.concatenate([part.features for part in parts])
    assert sorted(map(tuple, out)) == sorted(map(tuple, of.features[unseen]))
    assert all(part.moments.samples == whole.samples - len(part.labels) for part in parts)


def test_the_same_samples_in_another_order_are_in_the_same_folds():
    of, whole = own(4, 64)
    turn = np.random.default_rng(0).permutation(len(of.labels))
    turned = Samples.of(of.features[turn], of.labels[turn], of.own)
    for one, other in zip(folds(whole, of), folds(whole, turned), strict=True):
        assert sorted(map(tuple, one.features)) == sorted(map(tuple, other.features))


def test_a_class_that_only_the_fold_has_is_scored_by_nobody():
    x, y = samples(5, n=30)
    y[0] = 9
    sent = contribution(x, y, GRID)
    whole = moments(merge(OTHERS, fold(sent, GRID)))
    parts = list(folds(whole, Samples.of(x, y, sent)))
    assert 9 not in np.concatenate([part.labels for part in parts])
    out = held_out([scored(part, whole.classes, 1.0) for part in parts], whole.classes)
    missing = whole.classes.tolist().index(9)
    assert np.isneginf(out.scores[:, missing]).any()
    assert np.isfinite(np.delete(out.scores, missing, 1)).all()


def test_a_device_with_few_samples_a_class_still_has_folds():
    few = np.concatenate([np.eye(12), np.eye(12) + 0.1]), np.arange(24) % 12
    sent = contribution(*few, GRID)
    whole = moments(merge_all([OTHERS, fold(sent, GRID)]))
    assert sum(len(part.labels) for part in folds(whole, Samples.of(*few, sent))) == 24


def test_many_samples_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr(module, "MOST", 20)
    of, whole = own(6, 12, n=100)
    assert sum(len(part.labels) for part in folds(whole, of)) == 20


def test_the_least_loss_is_chosen_and_nothing_where_nobody_could_be_held_out():
    losses = np.full((len(SHRINKAGE), len(TEMPERATURES)), 9000)
    losses[3, 5] = 1
    distances = np.arange(len(SHRINKAGE)) * 2**16
    choice = choose(2, distances, losses)
    assert (choice.shrinkage, choice.temperature) == (SHRINKAGE[3], TEMPERATURES[5])
    assert choice.distance == 1.5
    assert choose(0, distances, losses) is None


def test_of_what_is_equally_good_the_most_careful_is_taken():
    losses = np.full((len(SHRINKAGE), len(TEMPERATURES)), 10**6)
    losses[1, 2] = losses[4, 3] = 500
    losses[4, 6] = 500 + 10 * 64  # a thousandth of a nat for each of ten samples
    losses[5, 8] = 501 + 10 * 64
    choice = choose(10, np.zeros(len(SHRINKAGE), np.int64), losses)
    assert (choice.shrinkage, choice.temperature) == (SHRINKAGE[4], TEMPERATURES[6])
