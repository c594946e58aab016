"""The reference of FedMPS: its loss is the published one, its averages are over holders."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from simulators.speed.reference_mps import SupCon, _average

RNG = np.random.default_rng(3)


def test_the_contrast_is_the_mean_over_anchors_and_positives():
    rows = functional.normalize(torch.from_numpy(RNG.normal(size=(6, 4))), dim=1)
    labels = torch.tensor([0, 0, 1, 1, 1, 0])
    tau = 0.3
    scores = (rows @ rows.T / tau).numpy()
    losses = []
    for i in range(6):
        others = [j for j in range(6) if j != i]
        positives = [j for j in others if labels[j] == labels[i]]
        total = np.log(sum(np.exp(scores[i, j]) for j in others))
        losses.append(-np.mean([scores[i, j] - total for j in positives]))
    assert float(SupCon(tau)(rows, labels)) == pytest.approx(np.mean(losses))


def test_large_scores_do_not_overflow():
    rows = functional.normalize(torch.ones(4, 3, dtype=torch.float32), dim=1)
    loss = SupCon(0.001)(rows, torch.tensor([0, 0, 1, 1]))
    assert torch.isfinite(loss)


def test_a_class_is_averaged_over_those_who_have_it():
    one, two = torch.tensor([1.0, 0.0]), torch.tensor([3.0, 2.0])
    averaged = _average([{0: one, 4: two}, {4: one}])
    assert set(averaged) == {0, 4}
    assert averaged[0].tolist() == [1.0, 0.0]
    assert averaged[4].tolist() == [2.0, 1.0]
