"""One pool of samples: what it may hold, and how rows are chosen from it."""

from __future__ import annotations

import numpy as np

from edge_agent.data.dataset import stratified
from protofleet.util.seeds import generator


def test_stratified_takes_a_share_of_each_class_and_never_the_last() -> None:
    y = np.repeat([0, 1, 2, 5], [1, 2, 8, 40])
    kept, taken = stratified(y, 0.25, generator("test"))
    assert sorted(np.concatenate([kept, taken]).tolist()) == list(range(51))
    assert np.bincount(y[taken], minlength=6).tolist() == [0, 1, 2, 0, 0, 10]
    assert np.bincount(y[stratified(y, 1.0, generator("test"))[0]]).tolist() == [1, 1, 1, 0, 0, 1]
