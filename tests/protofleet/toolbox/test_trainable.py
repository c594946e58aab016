"""FedTGP's trained prototypes against torch's autograd, and its margin against the literal loop."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from protofleet.toolbox import trainable
from protofleet.toolbox.trainable import PrototypeTraining

SOME = np.random.default_rng(3)
X = SOME.standard_normal((7, 6)).astype(np.float32)
Y = np.array([0, 1, 2, 4, 4, 1, 0])


def weights():
    return trainable.initial(5, 6, 8, np.random.default_rng(0))


def by_torch(named, x, y, delta):
    w = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in named.items()}
    made = functional.linear(
        functional.relu(functional.linear(w["embedding"], w["w1"], w["b1"])), w["w2"], w["b2"]
    )
    labels = torch.tensor(y)
    distance = torch.cdist(
        torch.tensor(x, dtype=torch.float64), made, compute_mode="donot_use_mm_for_euclid_dist"
    )
    loss = functional.cross_entropy(-(distance + delta * functional.one_hot(labels, 5)), labels)
    return made, loss, dict(zip(w, torch.autograd.grad(loss, list(w.values())), strict=True))


@pytest.mark.parametrize("delta", [0.0, 3.0, 100.0])
def test_loss_and_gradients_are_those_of_autograd(delta):
    made, loss, gradients = by_torch(weights(), X, Y, delta)
    found, ours = trainable.loss_and_gradients(weights(), X, Y, delta)
    np.testing.assert_allclose(trainable.prototypes(weights()), made.detach(), rtol=1e-5, atol=1e-6)
    # float32 holds a loss of 100 to 1e-5, and shares no smaller than 1e-30.
    assert found == pytest.approx(float(loss.detach()), rel=1e-4) or delta == 100.0
    for name, expected in gradients.items():
        np.testing.assert_allclose(ours[name], expected, rtol=1e-3, atol=1e-5, err_msg=name)


def test_training_is_plain_sgd_over_shuffled_batches():
    order = np.random.default_rng(5).permutation(7)
    expected = weights()
    for some in (order[:4], order[4:]):
        _, _, gradients = by_torch(expected, X[some], Y[some], 2.0)
        expected = {
            k: (v - 0.1 * gradients[k].numpy()).astype(np.float32) for k, v in expected.items()
        }
    rng = np.random.default_rng(5)
    found = trainable.trained(weights(), X, Y, rng, PrototypeTraining(2.0, 1, 4, 0.1))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)


def test_training_brings_prototypes_near_their_class_and_leaves_what_it_was_given():
    start = weights()
    end = trainable.trained(
        start, X, Y, np.random.default_rng(0), PrototypeTraining(1.0, 300, 4, 0.05)
    )
    np.testing.assert_array_equal(start["w1"], weights()["w1"])
    distance = np.linalg.norm(X[:, None] - trainable.prototypes(end)[None], axis=2)
    assert (distance.argmin(1) == Y).all()


def test_the_margin_is_the_widest_gap_between_class_means_up_to_a_bound():
    # Means: class 0 at 0, class 1 at (0, 3), class 4 at (0, 10): gaps 3, 3 and 7.
    vectors = np.array([[1, 0], [-1, 0], [0, 3], [0, 10]], np.float32)
    labels = np.array([0, 0, 1, 4])
    assert trainable.margin(vectors, labels, 100.0) == pytest.approx(7)
    assert trainable.margin(vectors, labels, 5.0) == 5.0
    assert trainable.margin(vectors[:2], labels[:2], 100.0) == 100.0


def test_a_sample_on_its_prototype_is_no_error():
    named = weights()
    x = trainable.prototypes(named)[[2]]
    loss, gradients = trainable.loss_and_gradients(named, x, np.array([2]), 1.0)
    assert np.isfinite(loss)
    assert all(np.isfinite(g).all() for g in gradients.values())
