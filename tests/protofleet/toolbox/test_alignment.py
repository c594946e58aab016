"""Alignment against the literal loop, the known optima of the Thomson problem, and the authors'
stopping rule.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from protofleet.toolbox import alignment


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of small products only get in each other's way."""
    with threadpool_limits(1):
        yield


def rng():
    return np.random.default_rng(0)


def cloud(n, d, seed=1, shift=0.5):
    """Points in one corner of the space, as means of rectified features are."""
    return np.abs(np.random.default_rng(seed).standard_normal((n, d))) + shift


def literal_force(points, others=()):
    force = np.zeros_like(points)
    for j, c in enumerate(points):
        for k, other in enumerate([*points, *others]):
            if k != j:
                force[j] += (c - other) / sum((c - other) ** 2)
    return force


@given(st.integers(2, 7), st.integers(2, 6), st.integers(0, 3), st.integers(0, 99))
@settings(max_examples=30)
def test_the_force_is_the_sum_over_pairs(n, d, fixed, seed):
    points = alignment.units(np.random.default_rng(seed).standard_normal((n + fixed, d)), rng())
    found = alignment.forces(points[:n], points[n:] if fixed else None)
    np.testing.assert_allclose(found, literal_force(points[:n], points[n:]), rtol=1e-6, atol=1e-6)


def test_the_force_is_minus_the_gradient_of_the_logarithmic_energy():
    points = alignment.units(cloud(5, 3), rng())

    def energy(at):  # ProtoNorm (10)
        return sum(
            -np.log(np.linalg.norm(at[j] - at[k])) for j, k in itertools.combinations(range(5), 2)
        )

    step = 1e-6 * np.eye(15).reshape(15, 5, 3)
    slope = [(energy(points + s) - energy(points - s)) / 2e-6 for s in step]
    np.testing.assert_allclose(
        alignment.forces(points).ravel(), -np.array(slope), rtol=1e-6, atol=1e-7
    )


def test_the_radial_part_of_the_force_is_half_the_number_of_others():
    points = alignment.units(cloud(9, 4), rng())
    np.testing.assert_allclose((alignment.forces(points) * points).sum(1), (9 - 1) / 2)


@pytest.mark.parametrize(("n", "d"), [(2, 8), (3, 2), (4, 3), (5, 4), (5, 32), (10, 9), (10, 64)])
def test_up_to_d_plus_one_points_end_in_a_simplex(n, d):
    points, _ = alignment.align(cloud(n, d), rng(), most=2000)
    products = points @ points.T
    np.testing.assert_allclose(np.diag(products), 1.0)
    np.testing.assert_allclose(products[~np.eye(n, dtype=bool)], -1 / (n - 1), atol=1e-3)


def test_points_on_a_circle_end_evenly_spaced():
    points, _ = alignment.align(cloud(6, 2), rng(), most=3000)
    angles = np.sort(np.arctan2(points[:, 1], points[:, 0]))
    np.testing.assert_allclose(np.diff(angles), np.pi / 3, atol=1e-3)


@pytest.mark.parametrize(("n", "d"), [(5, 4), (10, 64), (10, 512), (40, 16), (100, 128)])
def test_stopping_on_the_tangential_force_is_at_least_as_accurate_as_the_papers_rule(n, d):
    ours, long = alignment.align(cloud(n, d), rng())
    papers, short = alignment.align(cloud(n, d), rng(), stop="paper")
    assert alignment.gaps(ours).min() >= alignment.gaps(papers).min()
    assert short <= long <= 500


def literal_paper(points):
    """Pairwise differences, and the published rule, step by step."""
    c = points / np.linalg.norm(points, axis=1, keepdims=True)
    v, rate, last, same = 0.0, 0.1, None, 0
    for t in range(500):
        f = literal_force(c)
        v = 0.9 * v + rate * f
        c = c + v
        c = c / np.linalg.norm(c, axis=1, keepdims=True)
        if t % 10 == 0:
            rate *= 0.95
        if t >= 10:
            now = f"{np.linalg.norm(f, axis=1).mean():.4f}"
            same = same + 1 if now == last else 0
            last = now
            if same == 10:
                break
    return c, t + 1


@pytest.mark.parametrize(("n", "d"), [(2, 3), (4, 3), (6, 40), (12, 5), (10, 512)])
def test_the_papers_rule_stops_where_the_published_loop_stops(n, d):
    found, steps = alignment.align(cloud(n, d), rng(), stop="paper")
    expected, due = literal_paper(cloud(n, d))
    assert steps == due
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_points_at_rest_stop_at_once_or_when_the_papers_rule_first_can():
    opposite = [[0.0, 2.0], [0.0, -1.0]]
    assert alignment.align(opposite, rng())[1] == 1
    assert alignment.align(opposite, rng(), stop="paper")[1] == 21


def test_points_that_coincide_are_parted_and_the_same_way_every_time():
    same = np.ones((3, 5))
    points, _ = alignment.align(same, rng())
    np.testing.assert_array_equal(points, alignment.align(same, rng())[0])
    np.testing.assert_allclose((points @ points.T)[~np.eye(3, dtype=bool)], -0.5, atol=1e-3)


def test_points_nearly_the_same_are_parted():
    points, _ = alignment.align(np.ones((2, 4)) + 1e-7 * np.eye(2, 4), rng())
    assert points[0] @ points[1] == pytest.approx(-1, abs=1e-3)


def test_a_point_on_top_of_a_fixed_one_is_parted_from_it():
    points, _ = alignment.align([[0.0, 2.0, 0.0]], rng(), fixed=[[0.0, 1.0, 0.0]])
    np.testing.assert_allclose(points, [[0.0, -1.0, 0.0]], atol=1e-3)


def test_a_row_of_zeros_is_given_a_direction():
    points, _ = alignment.align([[0.0, 0.0, 0.0], [0.0, 0.0, 3.0]], rng())
    assert np.isfinite(points).all()
    assert points[0] @ points[1] == pytest.approx(-1, abs=1e-3)


def test_one_point_alone_is_only_brought_to_length_one():
    points, steps = alignment.align([[3.0, 4.0]], rng())
    np.testing.assert_allclose(points, [[0.6, 0.8]])
    assert steps == 0


@given(st.integers(2, 8), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=30)
def test_gaps_are_distances_to_the_nearest_other(n, d, seed):
    points = 50 + np.random.default_rng(seed).standard_normal((n, d))
    expected = [
        min(np.linalg.norm(p - q) for k, q in enumerate(points) if k != j)
        for j, p in enumerate(points)
    ]
    np.testing.assert_allclose(alignment.gaps(points), expected, rtol=1e-5, atol=1e-7)
