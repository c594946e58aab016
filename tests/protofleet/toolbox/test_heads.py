"""Heads across devices, against literal loops, a general solver and closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from protofleet.contract import Contract, Input
from protofleet.errors import FusionError
from protofleet.exchange.state import Upload
from protofleet.toolbox import heads
from protofleet.values.prototypes import Head, Prototypes, Tensors

CONTRACT = Contract("f", "r", 0, ("a", "b", "c"), Input("vector", (4,)), 4)


def device(rng, classes=(0, 1, 2), n=12):
    labels = rng.choice(classes, n)
    return rng.normal(size=(n, 4)) + labels[:, None], labels


def literal_statistics(f, y):
    """As FedPAC's official code states them: second moments by matrix, class by class."""
    v, h = 0.0, np.zeros((3, 4))
    for c in range(3):
        rows = f[y == c]
        if len(rows):
            p, mean = len(rows) / len(y), rows.mean(0)
            h[c] = p * mean
            v += p * np.trace(rows.T @ rows / len(rows)) - p**2 * mean @ mean
    return v / len(y), h


def literal_distance(h, i, j, k):
    return sum(np.trace(np.outer(h[i][c] - h[j][c], h[i][c] - h[k][c])) for c in range(3))


def by_slsqp(p):
    n = len(p)
    found = minimize(
        lambda a: a @ p @ a,
        np.full(n, 1 / n),
        jac=lambda a: 2 * p @ a,
        method="SLSQP",
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return found.x


def test_statistics_and_distances_are_those_of_the_literal_loops():
    rng = np.random.default_rng(1)
    data = [device(rng), device(rng, (0, 2), 7), device(rng, (1,), 3), device(rng, n=30)]
    found = [heads.statistics(f, y) for f, y in data]
    literal = [literal_statistics(f, y) for f, y in data]
    np.testing.assert_allclose(
        [float(s["variance"]["variance"]) for s in found], [v for v, _ in literal], rtol=1e-5
    )
    by = heads.Collaboration.of(found, CONTRACT)
    for i in range(4):
        due = [
            [literal_distance([h for _, h in literal], i, j, k) for k in range(4)] for j in range(4)
        ]
        np.testing.assert_allclose(by.distances(i), due, rtol=1e-4, atol=1e-6)


@given(st.integers(1, 9), st.integers(1, 12), st.floats(0, 3), st.integers(0, 10**6))
@settings(max_examples=60)
def test_the_program_is_solved_as_a_general_solver_solves_it(n, rank, ridge, seed):
    rng = np.random.default_rng(seed)
    b = rng.normal(size=(rank, n)) + rng.normal(size=(rank, 1)) * 2
    p = b.T @ b + ridge * np.diag(rng.random(n))
    alpha, other = heads.simplex_minimum(p), by_slsqp(p)
    assert alpha.min() >= 0
    assert alpha.sum() == pytest.approx(1)
    assert alpha @ p @ alpha <= other @ p @ other + 1e-7 * p.max()
    gradient = p @ alpha  # optimal: equal where α > 0, nowhere less
    assert gradient.min() >= alpha @ gradient - 1e-7 * p.max()


@pytest.mark.parametrize("n", [2, 20, 60])
def test_large_and_badly_scaled_programs_end_at_an_optimum(n):
    rng = np.random.default_rng(n)
    h = rng.normal(size=(n, 30))
    gaps = h - h[0]
    p = np.diag(10.0 ** rng.uniform(-6, 0, n)) + gaps @ gaps.T
    alpha = heads.simplex_minimum(p)
    gradient = p @ alpha
    assert gradient.min() >= alpha @ gradient - 1e-9 * p.max()


def test_closed_forms():
    np.testing.assert_allclose(
        heads.simplex_minimum(np.diag([1.0, 2.0, 4.0])), np.array([4, 2, 1]) / 7, rtol=1e-6
    )
    np.testing.assert_allclose(heads.simplex_minimum(np.zeros((4, 4))), 0.25)
    np.testing.assert_allclose(heads.simplex_minimum([[3.0]]), 1.0)
    # min over a of a²·1 + 2a(1−a)·2 + (1−a)²·5: the first alone, since the cross term exceeds the
    # first's own.
    np.testing.assert_allclose(heads.simplex_minimum([[1.0, 2.0], [2.0, 5.0]]), [1, 0])


def test_two_devices_share_by_variance_and_distance():
    by = heads.Collaboration(
        np.array([1.0, 2.0]), np.array([[0.0, 0.0], [0.0, 3.0]])
    )  # ‖H_0 − H_1‖² = 3
    np.testing.assert_allclose(
        by.weights(0, [0, 1]), np.array([5, 1]) / 6, rtol=1e-6
    )  # diag(1, 2 + 3)
    np.testing.assert_allclose(
        by.weights(1, [0, 1]), np.array([1, 2]) / 3, rtol=1e-6
    )  # diag(1 + 3, 2)
    assert by.weights(1, [1]).tolist() == [1]


def test_rows_of_the_last_layer_come_and_go_and_hidden_layers_are_apart():
    weights = Tensors(
        {
            "head.hidden1.weight": np.ones((2, 2)),
            "head.out.weight": np.arange(6.0).reshape(3, 2),
            "head.out.bias": np.array([7.0, 8.0, 9.0]),
        }
    )
    head = heads.rows(weights, [2, 0])
    assert head == Head([0, 2], [[0, 1], [4, 5]], [7, 9])
    changed = heads.with_rows(weights, Head([1], [[-1, -2]], [-3]))
    assert changed["head.out.weight"].tolist() == [[0, 1], [-1, -2], [4, 5]]
    assert changed["head.out.bias"].tolist() == [7, -3, 9]
    assert set(changed.arrays) == {"head.out.weight", "head.out.bias"}
    assert set(heads.without_rows(weights).arrays) == {"head.hidden1.weight"}


def test_heads_mix_with_their_biases():
    made = heads.mixed(
        [Head([0, 1], [[1, 0], [0, 1]], [1, 2]), Head([0, 1], [[5, 4], [4, 5]], [5, 6])],
        [0.75, 0.25],
    )
    assert made == Head([0, 1], [[2, 1], [1, 2]], [2, 3])


def test_within_groups_a_row_mixes_over_its_group_and_stays_where_the_device_is_alone():
    rng = np.random.default_rng(3)
    classes = [[0, 1], [0, 2], [0, 1], [0]]
    sent = [Head(c, rng.normal(size=(len(c), 4)), rng.normal(size=len(c))) for c in classes]
    by = heads.Collaboration.of([heads.statistics(*device(rng, c)) for c in classes], CONTRACT)
    groups = {0: [[0, 1, 3], [2]], 1: [[0, 2]], 2: [[1]]}
    made = heads.mixed_within(sent, groups, by)
    for i, head in enumerate(made):
        assert head.classes.tolist() == classes[i]
        for at, c in enumerate(classes[i]):
            members = next(g for g in groups[c] if i in g)
            alpha = by.weights(i, members)
            place = [classes[j].index(c) for j in members]
            due = sum(a * sent[j].weight[p] for a, j, p in zip(alpha, members, place, strict=True))
            bias = sum(a * sent[j].bias[p] for a, j, p in zip(alpha, members, place, strict=True))
            np.testing.assert_allclose(head.weight[at], due, rtol=1e-5)
            assert head.bias[at] == pytest.approx(bias, rel=1e-5)
    assert made[2].weight[0].tolist() == sent[2].weight[0].tolist()


def upload(head, **changes):
    rng = np.random.default_rng(0)
    return Upload("a", 1, "", {"head": head, **heads.statistics(*device(rng)), **changes})


@pytest.mark.parametrize(
    "bad",
    [
        upload(Head([0, 1], np.ones((2, 4)), [0, 0])),
        upload(Head([0, 1, 2], np.ones((3, 5)), [0, 0, 0])),
        upload(
            Head([0, 1, 2], np.ones((3, 4)), [0, 0, 0]), before=Prototypes([0], np.ones((1, 4)))
        ),
        upload(
            Head([0, 1, 2], np.ones((3, 4)), [0, 0, 0]),
            variance=Tensors({"variance": np.float32(-1)}),
        ),
    ],
)
def test_an_upload_that_does_not_fit_is_refused_by_itself(bad):
    with pytest.raises(FusionError, match="due"):
        heads.fold_heads("devices", bad, 1, CONTRACT, np.arange(3))


def test_rows_behind_hidden_layers_are_refused():
    with pytest.raises(FusionError, match="behind hidden layers"):
        heads.fold_heads(
            "devices",
            upload(Head([0, 1, 2], np.ones((3, 4)), [0, 0, 0])),
            1,
            replace(CONTRACT, head_hidden=(4,)),
            np.arange(3),
        )


def test_the_program_minimises_the_expected_error_of_the_combined_statistics():
    # FedPAC's claim: αᵀ(diag V + D_i)α is E‖Σ α_j Ĥ_j − H_i‖², Ĥ_j estimated from n_j samples.
    rng = np.random.default_rng(5)
    sizes, classes, d, draws = [6, 10, 25, 8], 3, 4, 6000
    centres = rng.normal(size=(classes, d))
    shares = rng.dirichlet(np.ones(classes), len(sizes))
    shift = 0.3 * rng.normal(size=(len(sizes), classes, d))  # what devices differ by
    exact, statistics, estimates = [], [], []
    for n, p, by in zip(sizes, shares, shift, strict=True):
        means = centres + by
        exact.append((p[:, None] * means).ravel())
        # A sample: a class by the shares, then a point about its mean.
        labels = rng.choice(classes, (draws, n), p=p)
        points = means[labels] + 0.5 * rng.normal(size=(draws, n, d))
        one_hot = np.eye(classes)[labels]
        estimates.append(np.einsum("tnc,tnd->tcd", one_hot, points).reshape(draws, -1) / n)
        # The statistics of a very large sample, with this device's n in V.
        many = rng.choice(classes, 200_000, p=p)
        told = heads.statistics(means[many] + 0.5 * rng.normal(size=(len(many), d)), many)
        variance = float(told["variance"]["variance"]) * len(many) / n
        statistics.append({**told, "variance": Tensors({"variance": np.float32(variance)})})
    by = heads.Collaboration.of(statistics, CONTRACT)
    for i, target in enumerate(exact):
        apart = np.stack(estimates) - target  # [N, draws, C d]
        error = np.einsum("jtd,ktd->jk", apart, apart) / draws
        ours = by.weights(i, range(len(sizes)))
        others = rng.dirichlet(np.ones(len(sizes)), 1000)
        best = np.einsum("aj,jk,ak->a", others, error, others).min()
        assert ours @ error @ ours <= best * 1.02
