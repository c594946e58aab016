"""What devices minimise, against slow loops over the formulas and numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax

from protofleet.toolbox import losses


def slow_supcon(z, labels, prototypes, have, temperature):
    """FedMPS (3), index by index; anchors without a positive are left out of the mean."""
    rows = [(v, y) for v, y in zip(z, labels, strict=True)]
    rows += [(prototypes[y], y) for y in labels if have[y]]
    terms = []
    for i, (v, y) in enumerate(rows):
        among = [a for a in range(len(rows)) if a != i]
        positives = [r for r in among if rows[r][1] == y]
        if positives:
            below = sum(math.exp(float(v @ rows[a][0]) / temperature) for a in among)
            shares = [
                math.log(math.exp(float(v @ rows[r][0]) / temperature) / below) for r in positives
            ]
            terms.append(-sum(shares) / len(shares))
    return sum(terms) / len(terms) if terms else 0.0


def problem(seed, batch, classes=4, d=3):
    rng = np.random.default_rng(seed)
    unit = [
        v / np.linalg.norm(v, axis=1, keepdims=True)
        for v in rng.normal(size=(2, max(batch, classes), d))
    ]
    have = rng.integers(0, 2, classes)
    return unit[0][:batch], rng.integers(0, classes, batch), unit[1][:classes], have


def of(z, labels, prototypes, have, temperature):
    tensors = [torch.tensor(a, dtype=torch.float32) for a in (z, prototypes, have)]
    z_, p_, h_ = tensors
    z_.requires_grad_()
    value = losses.supcon(z_, torch.tensor(labels), p_, h_, temperature)
    value.backward()
    return value.item(), z_.grad


@given(st.integers(0, 999), st.integers(1, 8), st.sampled_from([0.1, 0.5, 1.0]))
def test_supcon_is_the_formula(seed, batch, temperature):
    z, labels, prototypes, have = problem(seed, batch)
    value, gradient = of(z, labels, prototypes, have, temperature)
    assert value == pytest.approx(
        slow_supcon(z, labels, prototypes, have, temperature), rel=1e-4, abs=1e-5
    )
    assert torch.isfinite(gradient).all()


def test_a_missing_prototype_says_nothing_whatever_stands_in_its_row():
    z, labels, prototypes, have = problem(1, 8)
    have[:] = [1, 0, 1, 0]
    other = np.where(have[:, None], prototypes, 7.0)
    assert of(z, labels, prototypes, have, 0.5)[0] == pytest.approx(
        of(z, labels, other, have, 0.5)[0]
    )


def test_one_sample_and_its_prototype_alone_are_at_zero():
    # Each is the other's only companion: the share of the positive is 1 and its logarithm 0.
    assert of(np.array([[1.0, 0.0]]), [0], np.array([[0.0, 1.0]]), [1], 0.5)[0] == pytest.approx(0)


def test_supcon_computes_in_float32_where_training_does_not():
    z, labels, prototypes, have = problem(3, 8)
    have[:] = 1
    exact = of(z, labels, prototypes, have, 0.5)[0]
    with torch.autocast("cpu", torch.bfloat16):
        assert of(z, labels, prototypes, have, 0.5)[0] == exact


@given(st.integers(0, 999), st.integers(1, 8), st.sampled_from([1.0, 5.0]))
def test_kl_is_scipys_and_counts_missing_classes_as_zero(seed, batch, temperature):
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(batch, 4)) * 3, rng.integers(0, 4, batch)
    soft, have = rng.dirichlet(np.full(4, 0.1), 4), rng.integers(0, 2, 4)
    soft[0] = [1, 0, 0, 0]  # 0 log 0 is 0
    x, q, h = (torch.tensor(a, dtype=torch.float32) for a in (logits, soft, have))
    x.requires_grad_()
    value = losses.kl_to_soft_labels(x, torch.tensor(labels), q, h, temperature)
    value.backward()
    each = [
        rel_entr(q[y].numpy().astype(float), softmax(v / temperature)).sum() * have[y]
        for v, y in zip(logits, labels, strict=True)
    ]
    assert value.item() == pytest.approx(np.mean(each), rel=1e-4, abs=1e-5)
    pull = (
        (softmax(logits / temperature, axis=1) - soft[labels])
        * have[labels][:, None]
        / temperature
        / batch
    )
    np.testing.assert_allclose(x.grad, pull, atol=1e-5)


def test_dot_regression_is_half_the_squared_gap_of_the_cosine_to_one():
    # (3, 4) has length 5: cosines 0.6 and 0.8 with the axes; (0, 2) lies on its own axis.
    h = torch.tensor([[3.0, 4.0], [0.0, 2.0], [3.0, 4.0]], requires_grad=True)
    value = losses.dot_regression(h, torch.tensor([0, 1, 1]), torch.eye(2))
    assert float(value.detach()) == pytest.approx((0.4**2 + 0 + 0.2**2) / 2 / 3)
    value.backward()
    assert h.grad[1].tolist() == [0, 0]
    assert float((h.grad[0] * h[0]).sum().detach()) == pytest.approx(
        0, abs=1e-6
    )  # lengths do not matter
    assert torch.isfinite(
        torch.func.grad(lambda z: losses.dot_regression(z, torch.tensor([0]), torch.eye(2)))(
            h[:1] * 0
        )
    ).all()


def test_the_proximal_term_is_half_the_squared_distance_and_pulls_back():
    weights = {
        "a": torch.tensor([1.0, 2.0], requires_grad=True),
        "b": torch.tensor([[3.0]], requires_grad=True),
    }
    value = losses.proximal(weights, {"a": torch.tensor([0.0, 2.0]), "b": torch.tensor([[1.0]])})
    value.backward()
    assert float(value.detach()) == pytest.approx(0.5 * (1 + 4))
    assert weights["a"].grad.tolist() == [1, 0]
    assert weights["b"].grad.tolist() == [[2]]


@given(st.integers(0, 999), st.integers(1, 9), st.sampled_from([0.1, 0.5, 2.0]))
def test_the_contrast_of_two_models_is_a_cross_entropy_of_their_cosines(seed, batch, temperature):
    z, near, off = torch.randn(3, batch, 4, generator=torch.Generator().manual_seed(seed))
    cosine = torch.nn.CosineSimilarity(dim=1)
    scores = torch.stack([cosine(z, near), cosine(z, off)], 1) / temperature
    expected = torch.nn.functional.cross_entropy(scores, torch.zeros(batch, dtype=torch.long))
    found = losses.between_models(z, near, off, temperature)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_pull_does_not_grow_where_other_samples_have_no_prototype():
    # MSELoss against targets of which an absent one is the embedding itself: FedProto's own code.
    z = torch.tensor([[1.0, 2.0], [5.0, 7.0], [0.0, 1.0]])
    labels, prototypes = torch.tensor([0, 1, 0]), torch.tensor([[0.0, 0.0], [9.0, 9.0]])
    have = torch.tensor([1.0, 0.0])
    targets = torch.where(have[labels][:, None] > 0, prototypes[labels], z)
    expected = torch.nn.functional.mse_loss(z, targets)
    torch.testing.assert_close(losses.to_prototype(z, labels, prototypes, have), expected)


def test_losses_are_taken_in_float32_whatever_the_network_computed_in():
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    labels, rows, have = torch.arange(6) % 3, torch.eye(3, 4), torch.ones(3)
    wide = z.float()
    for half, full in (
        (losses.cross_entropy(z, labels), losses.cross_entropy(wide, labels)),
        (losses.to_prototype(z, labels, rows, have), losses.to_prototype(wide, labels, rows, have)),
        (losses.dot_regression(z, labels, rows), losses.dot_regression(wide, labels, rows)),
        (losses.supcon(z, labels, rows, have, 0.07), losses.supcon(wide, labels, rows, have, 0.07)),
    ):
        assert half.dtype == torch.float32
        assert float(half) == float(full)
