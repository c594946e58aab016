"""Learnt combinations of rows, against scipy's solver on the same cross-entropy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax

from protofleet.toolbox import combination
from protofleet.values.prototypes import Head

D, C = 5, 3


def head(rng, classes=range(C), scale=1.0):
    rows = len(list(classes))
    return Head(list(classes), scale * rng.normal(size=(rows, D)), scale * rng.normal(size=rows))


def cross_entropy(weight, bias, x, y):
    logits = x @ weight.T.astype(np.float64) + bias.astype(np.float64)
    return -log_softmax(logits, axis=1)[np.arange(len(y)), y].mean()


def combined(own, mates, betas):
    """The head that these β give; `betas` by class."""
    weight, bias = own.weight.astype(np.float64), own.bias.astype(np.float64)
    for c, beta in betas.items():
        members = [mate.only([c]) for mate in mates if c in mate.classes]
        weight[c] = sum(
            b * m.weight[0].astype(np.float64) for b, m in zip(beta, members, strict=True)
        )
        bias[c] = sum(b * float(m.bias[0]) for b, m in zip(beta, members, strict=True))
    return weight, bias


def by_slsqp(own, mates, x, y):
    """The least mean cross-entropy over a product of simplices, all β in one vector."""
    sizes = {c: n for c in range(C) if (n := sum(c in mate.classes for mate in mates))}
    ends = np.cumsum(list(sizes.values()))

    def loss(flat):
        betas = dict(zip(sizes, np.split(flat, ends[:-1]), strict=True))
        return cross_entropy(*combined(own, mates, betas), x, y)

    start = np.concatenate([np.full(n, 1 / n) for n in sizes.values()])
    sums = [
        {"type": "eq", "fun": lambda flat, a=end - n, b=end: flat[a:b].sum() - 1}
        for n, end in zip(sizes.values(), ends, strict=True)
    ]
    bounds = [(0, 1)] * len(start)
    options = {"ftol": 1e-12, "maxiter": 500}
    return minimize(loss, start, method="SLSQP", bounds=bounds, constraints=sums, options=options)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(3, 40), st.floats(0.1, 5))
@settings(max_examples=40)
def test_no_solver_finds_a_smaller_loss(seed, count, samples, scale):
    rng = np.random.default_rng(seed)
    own = head(rng, scale=scale)
    held = [np.flatnonzero(rng.random(C) < 0.7) for _ in range(count)]
    mates = [head(rng, classes, scale) for classes in held if classes.size]
    x, y = rng.normal(size=(samples, D)), rng.integers(0, C, samples)
    rows = combination.learnt(own, mates, x, y)
    weight, bias = own.weight.copy(), own.bias.copy()
    weight[rows.classes], bias[rows.classes] = rows.weight, rows.bias
    assert set(rows.classes.tolist()) == {c for mate in mates for c in mate.classes.tolist()}
    if mates:
        ours = cross_entropy(weight, bias, x, y)
        assert ours <= by_slsqp(own, mates, x, y).fun + 1e-5


def test_of_the_right_head_and_a_random_one_the_right_one_is_taken():
    rng = np.random.default_rng(0)
    right = head(rng, scale=3.0)
    x = rng.normal(size=(400, D))
    # Labels drawn from what the right head says of the samples: its own rows are then the best.
    shares = np.exp(log_softmax(x @ right.weight.T + right.bias, axis=1))
    y = np.array([rng.choice(C, p=share / share.sum()) for share in shares])
    rows = combination.learnt(head(rng), [right, head(rng, scale=3.0)], x, y)
    np.testing.assert_allclose(rows.weight, right.weight, atol=0.25)
    alone = combination.learnt(head(rng), [right], x, y)
    assert alone == right


def test_rows_of_a_class_that_no_mate_has_take_part_and_are_not_given_back():
    rng = np.random.default_rng(1)
    own, mates = head(rng), [head(rng, (0, 2)), head(rng, (2,))]
    x, y = rng.normal(size=(30, D)), rng.integers(0, C, 30)
    rows = combination.learnt(own, mates, x, y)
    assert rows.classes.tolist() == [0, 2]
    other = Head(own.classes, own.weight + np.eye(C, D)[[1, 1, 1]] * [[0], [9], [0]], own.bias)
    assert combination.learnt(other, mates, x, y) != rows


def test_mates_that_agree_share_evenly_and_without_mates_nothing_is_combined():
    rng = np.random.default_rng(2)
    own, mate = head(rng), head(rng)
    x, y = rng.normal(size=(10, D)), rng.integers(0, C, 10)
    rows = combination.learnt(own, [mate, mate], x, y)
    np.testing.assert_allclose(rows.weight, mate.weight, rtol=1e-6)
    assert not combination.learnt(own, [], x, y).classes.size


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_the_nearest_point_of_the_simplex(v):
    nearest = combination.onto_simplex(v)
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(1)
    # Karush, Kuhn, Tucker: one shift for all that stay, and those at zero lie at or below it.
    gap = np.array(v) - nearest
    inside = nearest > 0
    assert np.ptp(gap[inside]) < 1e-9
    assert (gap[~inside] <= gap[inside].max() + 1e-9).all()
