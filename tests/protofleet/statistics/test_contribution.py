"""A contribution says enough of its samples, is exact whoever adds it, and can be taken away."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet import wire
from protofleet.errors import FusionError
from protofleet.masking.layout import Layout
from protofleet.masking.rooms import Ceilings
from protofleet.statistics.contribution import (
    LEAST,
    Contribution,
    Grid,
    bytes_of,
    contribution,
    fold,
    from_parts,
    parts_of,
    rank_within,
    rooms,
    scatter,
    square,
    triangle,
)
from protofleet.values.sums import digest, merge_all, subtract

GRID = Grid()


def samples(seed, n=40, dim=12, classes=3, scale=1.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    return rng.normal(size=(n, dim)) * scale + labels[:, None], labels


def of(seed, rank=64, **how):
    return contribution(*samples(seed, **how), GRID, rank)


def test_with_rows_enough_the_scatter_is_that_of_the_samples():
    x, y = samples(1)
    assert scatter(contribution(x, y, GRID)) == pytest.approx(x.T @ x, rel=0.02, abs=0.4)


def test_with_fewer_rows_the_diagonal_is_still_right_and_none_is_too_small():
    x, y = samples(2, n=60)
    for rank in (0, 1, 4):
        diagonal = scatter(contribution(x, y, GRID, rank)).diagonal()
        assert diagonal == pytest.approx((x**2).sum(0), rel=0.02)


@given(st.integers(0, 50), st.sampled_from([0, 3, 64]), st.sampled_from([1e-3, 1.0, 12.0]))
def test_nobody_can_send_a_scatter_that_is_not_positive(seed, rank, scale):
    whole = scatter(of(seed, rank, scale=scale))
    values = np.linalg.eigvalsh(whole)
    assert values.min() >= -1e-9 * values.max()


@given(st.permutations(range(5)), st.integers(1, 4))
def test_any_order_and_any_split_is_the_same_total(order, cut):
    folded = [fold(of(seed, n=10 + seed), GRID) for seed in range(5)]
    whole = digest(merge_all(folded))
    mixed = [folded[i] for i in order]
    assert digest(merge_all([merge_all(mixed[:cut]), merge_all(mixed[cut:])])) == whole


@given(st.integers(0, 4))
def test_what_is_taken_away_was_never_there(gone):
    folded = [fold(of(seed, classes=2 + seed), GRID) for seed in range(5)]
    rest = merge_all([one for i, one in enumerate(folded) if i != gone])
    assert digest(subtract(merge_all(folded), folded[gone])) == digest(rest)


def test_what_was_not_added_cannot_be_taken_away():
    with pytest.raises(FusionError, match="never added"):
        subtract(fold(of(1, classes=2), GRID), fold(of(2, classes=4), GRID))
    with pytest.raises(FusionError):
        subtract(fold(of(1), GRID), fold(of(2), GRID))


def test_the_scatter_is_the_whole_numbers_own():
    """By Python's integers, which do not round."""
    one = of(3, rank=5)
    least = int(one.exponents.min())
    rows = [
        [int(q) << int(e - least) for q in row]
        for row, e in zip(one.rows, one.exponents, strict=True)
    ]
    for i, j in ((0, 0), (1, 4), (11, 2)):
        by_rows = sum(row[i] * row[j] for row in rows) * 2.0 ** (2 * least)
        steps = [[round(float(v) * 1024) for v in mean] for mean in one.means.vectors]
        by_means = (
            sum(int(n) * m[i] * m[j] for n, m in zip(one.means.counts, steps, strict=True)) / 2**20
        )
        residual = float(one.residual[i]) if i == j else 0.0
        assert scatter(one)[i, j] == by_rows + by_means + residual


@given(st.integers(0, 20), st.sampled_from([0, 7, 64]))
def test_what_comes_over_the_wire_is_what_was_made(seed, rank):
    one = of(seed, rank)
    data = wire.encode_parts(parts_of(one), "half")
    assert digest(fold(from_parts(wire.decode_parts(data)), GRID)) == digest(fold(one, GRID))


def test_a_device_with_one_sample_says_its_mean_alone():
    one = contribution([[1.0, 2.0, 3.0]], [4], GRID)
    assert not len(one.rows)
    assert scatter(one) == pytest.approx(np.outer([1, 2, 3], [1, 2, 3]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"exponents": np.full(12, LEAST - 1)}, "exponents"),
        ({"exponents": np.arange(12) * 3}, "exponents"),
        ({"residual": np.full(12, -1.0, np.float32)}, "negative"),
        ({"residual": np.full(12, 1e-7, np.float32)}, "off its grid"),
        ({"residual": np.zeros(3, np.float32)}, "numbers are due"),
        ({"rows": np.zeros((2, 12), np.int8)}, "rows"),
    ],
)
def test_what_could_not_be_added_exactly_is_refused(change, words):
    one = of(5)
    values = {name: getattr(one, name) for name in ("means", "rows", "exponents", "residual")}
    with pytest.raises(FusionError, match=words):
        Contribution(**{**values, **change})


def test_means_off_the_grid_are_refused():
    one = of(6)
    with pytest.raises(FusionError, match="grid"):
        fold(one, Grid(-2))


def test_the_grid_holds_what_it_is_made_over_and_half_precision_loses_nothing():
    grid = Grid.over(5.4)
    rows = grid.onto(np.linspace(-5.4, 5.4, 999))
    assert grid.holds(rows)
    assert np.array_equal(rows.astype(np.float16).astype(np.float32), rows)
    assert rows == pytest.approx(np.linspace(-5.4, 5.4, 999), abs=2e-3)


def test_a_triangle_is_half_of_a_square():
    whole = np.arange(16.0).reshape(4, 4)
    whole = whole + whole.T
    assert np.array_equal(square(triangle(whole), 4), whole)


@given(st.integers(1, 20), st.sampled_from([64, 504, 1280]), st.integers(1_000, 2_000_000))
def test_as_many_rows_as_the_budget_takes(classes, dim, budget):
    rank = rank_within(budget, classes, dim)
    assert rank == 0 or bytes_of(classes, dim, rank, 10**6) <= budget


@pytest.mark.parametrize("scale", [1e-4, 0.01, 1.0, 8.0])
def test_a_total_fits_the_room_that_is_made_for_it(scale):
    """However small a spread is, its products are no finer than what a masked sum has room for."""
    folded = [fold(of(seed, scale=scale), GRID) for seed in range(3)]
    places = rooms(GRID, 3, 12, Ceilings(3, 64.0, 1.0, 40, 64.0**2))
    layout = Layout.of(places, folded[0], 3)
    total = layout.zeros()
    for own in folded:
        total = total.plus(layout.pack(own))
    assert digest(layout.unpack(total)) == digest(merge_all(folded))
