"""Buckets are exact sums, and what a minority of them says moves the outcome no further than honest
buckets lie apart.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.statistics.voices import placed
from protofleet.toolbox import buckets
from protofleet.values.sums import Bag, Sum, digest, merge_all, subtract

COUNT = 64
AGENTS = [f"camera-{i}" for i in range(7)]


def said(agent, lies=0.0):
    """One device's fold: rows of three classes around 1, 2 and 3, or far away."""
    rng = np.random.default_rng([*agent.encode()])
    rows = rng.normal(size=(3, 4)) * 0.1 + np.arange(1, 4)[:, None] + lies
    sums = {"rows": Sum.of([0, 1, 2], rows.astype(np.float32), rng.integers(1, 99, 3))}
    return placed(sums, agent, COUNT, 0, "run")


@given(st.permutations(AGENTS), st.integers(1, 6), st.integers(0, 6))
def test_in_any_order_and_split_and_after_one_was_taken_away_it_is_the_same(order, cut, gone):
    one, two = (merge_all(map(said, some)) for some in (order[:cut], order[cut:]))
    whole, others = merge_all([one, two]), [a for a in AGENTS if a != order[gone]]
    assert digest(whole) == digest(merge_all(map(said, AGENTS)))
    rest = subtract(whole, said(order[gone]))
    assert digest(rest) == digest(merge_all(map(said, others)))
    straight = buckets.agreed(merge_all(map(said, others))["rows"], COUNT)
    assert buckets.agreed(rest["rows"], COUNT).digest() == straight.digest()


@given(
    st.sets(st.sampled_from(AGENTS), max_size=3),
    st.sampled_from([-8e6, -30.0, -0.1, 0.3, 9.0, 8e6]),
)
def test_a_minority_moves_nothing_much_further_than_honest_buckets_lie_apart(liars, far):
    total = merge_all(said(a, far if a in liars else 0.0) for a in AGENTS)["rows"]
    assert len(np.unique(total.keys % COUNT)) == len(AGENTS)  # nobody shares a bucket here
    honest = np.stack([said(a)["rows"].mean() for a in AGENTS if a not in liars])
    shared = buckets.agreed(total, COUNT)
    assert shared.keys.tolist() == [0, 1, 2]
    assert shared.weights.sum() == sum(said(a)["rows"].weights.sum() for a in AGENTS)
    widest = np.linalg.norm(honest.max(0) - honest.min(0), axis=1)
    off = np.linalg.norm(shared.mean() - honest.mean(0), axis=1)
    assert np.all(off <= 3 * widest)


def test_where_all_are_near_each_other_it_is_the_mean_of_all():
    rows = {f"c{i}": np.float32([[1 + 0.01 * (i % 2), 2, 3 - 0.01 * (i % 2)]]) for i in range(6)}
    sums = [placed({"r": Sum.of([4], row, 3)}, a, 4096, 1) for a, row in rows.items()]
    shared = buckets.agreed(merge_all(sums)["r"], 4096)
    plain = merge_all({"r": Sum.of([4], row, 3)} for row in rows.values())["r"]
    assert shared.mean() == pytest.approx(plain.mean(), abs=1e-9)
    assert shared.weights.tolist() == plain.weights.tolist() == [18]


def test_of_two_that_differ_the_one_is_believed_who_lied_of_nothing_else():
    rng = np.random.default_rng(2)

    def speaks(agent, classes, far=0.0):
        rows = rng.normal(size=(len(classes), 4)) * 0.1 + np.array(classes)[:, None] + far
        return placed({"rows": Sum.of(classes, rows, 1)}, agent, COUNT, 0, "run")

    said_by = [speaks(a, [0, 1, 2]) for a in AGENTS[:3]] + [speaks(AGENTS[3], [0, 1, 2, 5])]
    total = merge_all([*said_by, speaks(AGENTS[4], [0, 1, 2, 5, 6], far=40.0)])["rows"]
    shared = dict(zip([0, 1, 2, 5, 6], buckets.agreed(total, COUNT).mean(), strict=True))
    assert all(np.abs(shared[c] - c).max() < 1 for c in (0, 1, 2, 5))
    assert shared[6] == pytest.approx(46, abs=1)  # of which nobody else speaks


def test_with_one_bucket_nothing_changes():
    bag = Bag.of("a", 1, {})
    plain = {"rows": Sum.of([2, 5], np.eye(2), 3), "devices": bag}
    assert placed(plain, "a", 1, "run") is plain
    assert buckets.agreed(plain["rows"], 1) is plain["rows"]
    assert placed(plain, "a", COUNT, "run")["devices"] is bag


def test_a_device_keeps_its_bucket_for_the_run_and_has_another_in_the_next():
    places = [said(a)["rows"].keys[0] for a in AGENTS]
    assert places == [said(a)["rows"].keys[0] for a in AGENTS]
    rows = {"rows": Sum.of([0], np.ones((1, 2)), 1)}
    other = [placed(rows, a, COUNT, 1, "run")["rows"].keys[0] for a in AGENTS]
    assert other != places


def test_a_total_of_weight_nothing_is_agreed_on_by_nobody():
    empty = Sum.of([3], np.ones((1, 4)), 0)
    assert not buckets.agreed(empty, COUNT).keys.size


def test_more_weight_than_a_row_may_have_is_as_much_as_it_may():
    heavy = merge_all({"rows": Sum.of([i], np.ones((1, 2)), 2**31 - 1)} for i in range(3))["rows"]
    assert buckets.agreed(heavy, COUNT).weights.tolist() == [2**31 - 1]
