"""Points as inputs of a graph: its one product gives the order, and the distances, that evaluation
gives.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.inference.bundle import Reading
from edge_agent.inference.inputs import drift_of, oddness, ready, scores_of
from protofleet.exchange.published import About, Bank
from protofleet.values import nearest
from protofleet.values.prototypes import Head, Mixtures, Prototypes

CLASSES = tuple("abcd")


def bank(points):
    return Bank(About("run:f/r", CLASSES), points)


def draw(seed, n, d=3):
    return np.random.default_rng(seed).normal(2.0, 1.0, (n, d)).astype(np.float32)


def prototypes(seed=0):
    """Two rows for class 0, one for 2 and 3, none for 1."""
    return Prototypes([0, 0, 2, 3], draw(seed, 4))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@given(seed=st.integers(0, 1000))
def test_the_highest_score_is_the_nearest_class_and_what_is_left_out_gives_the_distance(
    metric, seed
):
    f, points = draw(seed + 1, 6), prototypes(seed)
    if metric == "cosine":  # the graph makes unit vectors of its features
        f = f / np.linalg.norm(f, axis=1, keepdims=True)
    inputs = ready(bank(points), Reading("prototypes", metric))
    scores = inputs.by_class(scores_of(f, inputs), "prototypes")
    expected = nearest.prototype_scores(f, points, len(CLASSES), metric)
    assert inputs.present.tolist() == [0, 2, 3]
    if metric == "euclidean":
        distances = (f**2).sum(1)[:, None] - scores
        assert np.allclose(distances, -expected[:, inputs.present], rtol=1e-4, atol=1e-4)
    else:
        assert np.allclose(scores, 2 * expected[:, inputs.present] - 1, atol=1e-5)


@given(seed=st.integers(0, 1000))
def test_gaussians_score_their_log_density_all_of_a_class_together(seed):
    rng = np.random.default_rng(seed)
    weights = np.array([0.25, 0.75, 1.0], np.float32)
    variances = rng.uniform(0.5, 2, (3, 3))
    points = Mixtures([0, 0, 3], weights, draw(seed, 3), variances, [4, 1])
    inputs = ready(bank(points), Reading("mixtures"))
    f = draw(seed + 1, 5)
    scores = inputs.by_class(scores_of(f, inputs), "mixtures")
    expected = nearest.mixture_scores(f, points, len(CLASSES))[:, [0, 3]]
    assert np.allclose(scores, expected, rtol=1e-4, atol=1e-3)


def test_gaussians_far_from_zero_keep_their_precision():
    points = Mixtures([0, 1], np.ones(2), draw(0, 2) + 1000, np.full((2, 3), 0.01), [1, 1])
    inputs = ready(bank(points), Reading("mixtures"))
    f = points.means + 0.05
    expected = nearest.mixture_scores(f, points, len(CLASSES))[:, :2]
    assert np.allclose(scores_of(f, inputs), expected, rtol=1e-2, atol=0.1)


def test_a_gaussian_without_weight_changes_nothing_and_is_a_number():
    means, ones = draw(0, 3), np.ones((3, 3))
    points = Mixtures([0, 0, 1], np.array([0.0, 1.0, 1.0]), means, ones, [1, 1])
    plain = Mixtures([0, 1], np.ones(2), means[1:], ones[1:], [1, 1])
    inputs, alone = (ready(bank(each), Reading("mixtures")) for each in (points, plain))
    f = draw(1, 4)
    assert np.isfinite(scores_of(f, inputs)).all()
    scores, expected = (each.by_class(scores_of(f, each), "mixtures") for each in (inputs, alone))
    assert np.allclose(scores, expected, atol=1e-4)


def test_a_heads_rows_are_its_product():
    head = Head([1, 3], draw(0, 2), np.array([0.5, -0.5]))
    inputs = ready(bank(head), Reading("head"))
    f = draw(1, 5)
    assert np.allclose(scores_of(f, inputs), f @ head.weight.T + head.bias, atol=1e-5)


def test_no_points_are_no_columns():
    inputs = ready(bank(Prototypes([], np.zeros((0, 3)))), Reading("prototypes"))
    assert inputs.by_class(scores_of(draw(0, 4), inputs), "prototypes").shape == (4, 0)


def test_drift_moves_a_class_by_its_own_and_one_that_came_later_by_the_mean():
    drift = {"": np.ones(3, np.float32), "c": np.full(3, 5, np.float32)}
    assert drift_of(["c", "new"], drift).tolist() == [[5, 5, 5], [1, 1, 1]]
    moved = ready(bank(prototypes()), Reading("prototypes"), drift).inputs["proto_w"].T / 2
    by = np.array([[1.0], [1.0], [5.0], [1.0]])
    assert np.allclose(moved, prototypes().vectors + by, atol=1e-6)


@pytest.mark.parametrize("by", ["prototypes", "mixtures", "head"])
def test_what_lies_farther_out_is_odder(by):
    points = {
        "prototypes": prototypes(),
        "mixtures": Mixtures([0, 2], np.ones(2), draw(0, 2), np.ones((2, 3)), [1, 1]),
        "head": Head([0, 2], np.eye(3)[:2], np.zeros(2)),
    }[by]
    inputs = ready(bank(points), Reading(by))
    near = points.vectors[:1] if by == "prototypes" else np.full((1, 3), 2.0, np.float32)
    far = -9 * near  # for a head: small in every class's direction
    odd = [oddness(f, inputs.by_class(scores_of(f, inputs), by), by)[0] for f in (near, far)]
    assert odd[0] < odd[1]
    if by == "prototypes":
        assert odd[0] == pytest.approx(0, abs=1e-4)


def test_a_heads_rows_are_moved_back_by_what_a_quantised_extractor_adds():
    head = Head([0, 1], [[1.0, 2.0], [0.0, -1.0]], [0.5, 0.0])
    two = Bank(About("extractor:x", ("a", "b")), head)
    drift = {"": np.array([0.1, -0.2], np.float32), "a": np.array([9.0, 9.0], np.float32)}
    seen = np.array([[3.0, 4.0]], np.float32)
    exact = ready(two, Reading("prototypes"))
    moved = ready(two, Reading("prototypes"), drift)
    assert np.allclose(scores_of(seen + drift[""], moved), scores_of(seen, exact), atol=1e-6)
