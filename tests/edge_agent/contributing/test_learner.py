"""A device that trains nothing looks to a method like any other."""

import numpy as np

from edge_agent.contributing.learner import FeatureLearner


def test_it_has_its_features_and_no_network():
    me = FeatureLearner("d", np.ones((3, 2), np.float32), np.array([4, 1, 4]))
    assert (me.classes.tolist(), me.samples, me.folds(2).tolist()) == ([1, 4], 3, [0, 1, 0])
    assert me.features().high.shape == me.validation().high.shape == (3, 2)
    assert not me.weights("head").arrays
    me.load(me.weights())
