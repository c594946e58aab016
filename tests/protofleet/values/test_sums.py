from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.errors import FusionError
from protofleet.values.prototypes import Prototypes
from protofleet.values.sums import Bag, Sum, bagged, merge, merge_all

values = st.floats(-60000, 60000, width=32)
rows = st.lists(
    st.tuples(st.integers(0, 5), st.lists(values, min_size=3, max_size=3), st.integers(1, 10_000)),
    min_size=1,
    max_size=12,
)


def same(one: Sum, two: Sum) -> bool:
    return (
        np.array_equal(one.keys, two.keys)
        and np.array_equal(one.total(), two.total())
        and np.array_equal(one.mean(), two.mean())
    )


@given(rows, st.randoms(use_true_random=False))
def test_any_order_and_any_tree_of_merges_gives_the_same_bits(items, random):
    parts = [{"s": Sum.of([key], [row], [weight])} for key, row, weight in items]
    straight = merge_all(parts)["s"]
    random.shuffle(parts)
    while len(parts) > 1:
        i = random.randrange(len(parts) - 1)
        parts[i : i + 2] = [merge(parts[i], parts[i + 1])]
    assert same(parts[0]["s"], straight)


@given(rows)
def test_the_sum_is_the_true_sum_to_the_grid(items):
    total = merge_all([{"s": Sum.of([key], [row], [weight])} for key, row, weight in items])["s"]
    for at, key in enumerate(total.keys):
        true = [
            sum(Fraction(row[j]) * weight for k, row, weight in items if k == key) for j in range(3)
        ]
        weights = sum(weight for k, _, weight in items if k == key)
        assert total.weights[at] == weights
        for got, want in zip(total.total()[at], true, strict=True):
            assert abs(Fraction(got) - want) <= Fraction(weights, 2**40) + abs(want) / 2**50


@pytest.mark.parametrize("value", [-2047.9998779296875, 3e-12, 5.0, 2048.0, 8_388_607.5])
@pytest.mark.parametrize("weight", [1, 700])
def test_sums_that_outgrow_one_integer_stay_exact(value, weight):
    once = Fraction(round(Fraction(value) * 2**40), 2**40) * weight
    total = Sum.of([0], [[np.float32(value)] if value == np.float32(value) else [value]], weight)
    for doubled in range(1, 31):
        total = total.merge(total)
        assert Fraction(total.total()[0, 0]) == Fraction(float(once * 2**doubled))


def test_half_precision_values_are_exact_on_the_grid():
    x = np.float16([6e-8, -0.3333, 65504, 1e-4]).astype(np.float64)
    assert np.array_equal(Sum.of([0], [x], [1]).total()[0], x)


@pytest.mark.parametrize(
    ("row", "weight", "words"),
    [
        ([1e30], 1, "too large"),
        ([np.nan], 1, "too large"),
        ([1.0], -1, "negative"),
        ([1.0], 2**31, "too large"),
    ],
)
def test_what_cannot_be_added_exactly_is_refused(row, weight, words):
    with pytest.raises(FusionError, match=words):
        Sum.of([0], [row], [weight])


def test_rows_of_other_shape_and_agents_folded_twice_are_refused():
    with pytest.raises(FusionError, match="shape"):
        Sum.of([0], [[1.0]], [1]).merge(Sum.of([0], [[1.0, 2.0]], [1]))
    with pytest.raises(FusionError, match="twice"):
        Bag.of("a", 1, {}).merge(Bag.of("a", 1, {}))
    with pytest.raises(FusionError, match="a sum in one"):
        merge({"x": Sum.of([0], [[1.0]], [1])}, {"x": Bag.of("a", 1, {})})


def test_bags_are_sorted_by_agent():
    assert [name for name, _, _ in Bag.of("b", 1, {}).merge(Bag.of("a", 2, {})).items] == ["a", "b"]


def test_a_bag_that_nobody_filled_is_empty():
    parts = {"p": Prototypes([0], [[1.0]])}
    assert bagged({"x": Bag.of("a", 2, parts)}, "x") == (("a", 2, parts),)
    assert bagged({}, "x") == ()
    assert bagged({"x": Sum.of([0], np.ones((1, 1)), [1])}, "x") == ()


HUGE = st.tuples(st.sampled_from([-8_388_607.0, 8_388_607.5, 2047.25, 3e-12]), st.integers(0, 2))


@given(st.lists(HUGE, min_size=2, max_size=40), st.randoms(use_true_random=False))
def test_whoever_fills_a_total_shuts_nobody_out(items, random):
    """Each has the largest weight there is; sums that outgrow two integers are exact in any order
    and any tree of merges.
    """
    most = 2**31 - 1
    parts = [Sum.of([key], [[value]], most) for value, key in items]
    straight = parts[0]
    for part in parts[1:]:
        straight = straight.merge(part)
    for at, key in enumerate(straight.keys):
        mine = [value for value, other in items if other == key]
        true = sum(Fraction(round(Fraction(value) * 2**40), 2**40) * most for value in mine)
        assert straight.weights[at] == len(mine) * most
        assert straight.total()[at, 0] == pytest.approx(float(true), rel=1e-15, abs=1e-30)
    parts += [parts[0], parts[1]]
    random.shuffle(parts)
    while len(parts) > 1:
        i = random.randrange(len(parts) - 1)
        parts[i : i + 2] = [parts[i].merge(parts[i + 1])]
    first, second = (Sum.of([key], [[value]], most) for value, key in items[:2])
    whole = straight.merge(first).merge(second)
    assert same(parts[0], whole)
    assert parts[0].digest() == whole.digest()
    assert whole.minus(first).minus(second).digest() == straight.digest()
    assert same(whole.minus(second).minus(first), straight)


def test_a_total_that_was_filled_and_emptied_is_as_if_it_never_had_been():
    most, small = 2**31 - 1, Sum.of([0], [[0.5, -3.25]], 7)
    rogues = [Sum.of([0], [[8_388_607.5, -8_388_607.0]], most) for _ in range(50)]
    total = small
    for rogue in rogues:
        total = total.merge(rogue)
    assert total.weights[0] == 50 * most + 7
    for rogue in rogues:
        total = total.minus(rogue)
    assert total.digest() == small.digest()
    assert same(total, small)
