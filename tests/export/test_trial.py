"""Samples and their labels, by name."""

import numpy as np

from export.trial import Trial, Trials


def test_calibration_and_check_are_told_apart_by_name():
    one, other = (Trial(np.zeros((n, 2)), np.zeros(n, np.int64)) for n in (1, 2))
    samples = Trials(one, other)
    assert (samples.calibration, samples.check) == (one, other)
