"""Supervised contrast and KL to soft labels, against slow loops over the formulas."""

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
