"""The coordinator's classifier and its soft labels against torch and slow literal statements."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from protofleet.errors import FusionError
from protofleet.toolbox import softlabels
from protofleet.toolbox.softlabels import ClassifierTraining, Model
from protofleet.values.prototypes import SoftLabels

SIZES = (5, 7, 3)


def points(seed=0, n=11):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, SIZES[0])), rng.integers(0, SIZES[-1], n)


def as_torch(model):
    layers = []
    for weight, bias in zip(model.weights, model.biases, strict=True):
        linear = torch.nn.Linear(*weight.shape, dtype=torch.float64)
        linear.weight.data, linear.bias.data = (
            torch.tensor(weight.T.copy()),
            torch.tensor(bias.copy()),
        )
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[: None if model.relu else -1])


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("sizes", [SIZES, (5, 3), (5, 6, 4, 3)])
def test_logits_and_gradients_are_torchs(sizes, relu):
    model, (x, y) = Model.fresh(sizes, np.random.default_rng(1), relu=relu), points()
    net = as_torch(model)
    logits = net(torch.tensor(x))
    np.testing.assert_allclose(model.logits(x), logits.detach().numpy(), rtol=1e-12)
    torch.nn.functional.cross_entropy(logits, torch.tensor(y)).backward()
    for ours, theirs in zip(model.gradients(x, y), net.parameters(), strict=True):
        np.testing.assert_allclose(ours, theirs.grad.numpy().T, atol=1e-12)


@pytest.mark.parametrize(
    ("optimizer", "lr"), [("sgd", None), ("sgd", 0.3), ("adam", None), ("adam", 0.05)]
)
def test_teaching_is_torchs_optimiser_on_the_same_batches(optimizer, lr):
    model, (x, y) = Model.fresh(SIZES, np.random.default_rng(1)), points()
    net = as_torch(model)
    softlabels.teach(model, x, y, np.random.default_rng(2), ClassifierTraining(3, 4, optimizer, lr))
    rng = np.random.default_rng(2)
    if optimizer == "sgd":
        steps = torch.optim.SGD(net.parameters(), lr=lr or 0.01, momentum=0.5)
    else:
        steps = torch.optim.Adam(net.parameters(), lr=lr or 0.001)
    for _ in range(3):
        for at in torch.split(torch.from_numpy(rng.permutation(len(y))), 4):
            steps.zero_grad()
            torch.nn.functional.cross_entropy(
                net(torch.tensor(x)[at]), torch.tensor(y)[at]
            ).backward()
            steps.step()
    for ours, theirs in zip(model.parameters(), net.parameters(), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy().T, atol=1e-9)


def test_a_fresh_model_begins_within_torchs_bounds_and_fills_them():
    model = Model.fresh((100, 400), np.random.default_rng(0))
    assert 0.099 < np.abs(model.weights[0]).max() <= 0.1
    assert 0.09 < np.abs(model.biases[0]).max() <= 0.1


def test_a_model_survives_a_state_and_teaching_leaves_the_state_alone():
    tensors = Model.fresh(SIZES, np.random.default_rng(1)).tensors()
    before, (x, y) = hash(tensors), points()
    model = Model.of(tensors)
    assert model.tensors() == tensors
    softlabels.teach(model, x, y, np.random.default_rng(2), ClassifierTraining(1, 4, "sgd", None))
    assert model.tensors() != tensors
    assert hash(tensors) == before


def test_it_learns_points_apart_and_says_so():
    x = np.eye(3).repeat(8, 0)
    y = np.arange(3).repeat(8)
    model = Model.fresh((3, 3), np.random.default_rng(0))
    softlabels.teach(model, x, y, np.random.default_rng(1), ClassifierTraining(40, 4, "sgd", 0.5))
    soft = softlabels.soft_labels(model.logits(x), y, 1.0)
    assert (soft.probabilities.argmax(1) == [0, 1, 2]).all()
    assert soft.probabilities.max(1).min() > 0.9


@pytest.mark.parametrize(("x", "y"), [(np.zeros((2, 5)), [0, 3]), (np.zeros((2, 4)), [0, 1])])
def test_points_that_do_not_fit_the_fleet_are_refused(x, y):
    model = Model.fresh(SIZES, np.random.default_rng(1))
    with pytest.raises(FusionError):
        softlabels.teach(
            model, x, y, np.random.default_rng(2), ClassifierTraining(1, 4, "sgd", None)
        )


@given(
    st.integers(1, 9),
    st.sampled_from([0.5, 1.0, 5.0]),
    st.sampled_from(["softmax", "logits"]),
    st.integers(0, 99),
)
def test_soft_labels_are_the_class_averages_written_out(n, temperature, average, seed):
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(n, 4)) * 9, rng.integers(0, 4, n)
    got = softlabels.soft_labels(logits, labels, temperature, average)
    assert got.classes.tolist() == sorted(set(labels.tolist()))
    for c, row in zip(got.classes, got.probabilities, strict=True):
        mine = [logits[i] for i in range(n) if labels[i] == c]
        if average == "softmax":  # FedMPS (8)
            want = sum(np.exp(v / temperature) / np.exp(v / temperature).sum() for v in mine) / len(
                mine
            )
        else:
            want = np.exp(sum(mine) / len(mine) / temperature)
            want /= want.sum()
        np.testing.assert_allclose(row, want, rtol=1e-5, atol=1e-7)


def test_a_class_without_new_soft_labels_keeps_its_old_ones():
    old, new = (
        SoftLabels([0, 2], [[1, 0, 0], [0, 0, 1]]),
        SoftLabels([1, 2], [[0, 0.5, 0.5], [0.5, 0, 0.5]]),
    )
    both = softlabels.kept_beside(new, old)
    assert both == SoftLabels([0, 1, 2], [[1, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    assert softlabels.kept_beside(new, None) == new
    nothing = softlabels.soft_labels(np.zeros((0, 3)), np.zeros(0, np.int64), 5.0)
    assert softlabels.kept_beside(nothing, old) == old
    rows, have = softlabels.table(old, 3)
    assert rows.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert have.tolist() == [1, 0, 1]
    assert softlabels.table(None, 3)[1].tolist() == [0, 0, 0]
