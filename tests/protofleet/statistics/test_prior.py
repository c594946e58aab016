"""A prior is Bayes' rule on scores."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from protofleet.statistics.prior import with_prior
from protofleet.values.nearest import head_scores
from protofleet.values.prototypes import Head

D, C = 5, 3


@given(st.integers(0, 99), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.5, 2.0, 50.0]))
def test_the_prior_is_bayes_rule_on_tempered_likelihoods(seed, temper, smooth):
    rng = np.random.default_rng(seed)
    head = Head(np.arange(C), rng.standard_normal((C, D)), rng.standard_normal(C))
    counts, x = rng.integers(0, 20, C), rng.standard_normal((7, D))
    scores = head_scores(x, with_prior(head, counts, temper, smooth), C)
    joint = np.exp(head_scores(x, head, C) / temper) * (counts + smooth)
    expected = joint / joint.sum(1, keepdims=True)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(shares, expected, rtol=1e-4, atol=1e-6)


def test_a_prior_of_every_class_alike_only_shifts_all_scores():
    head = Head([0, 2], np.eye(2), [0.0, 1.0])  # class 1 is unknown to the fleet
    same = with_prior(head, np.full(3, 5), 1.0, 2.0)
    assert (same.weight == head.weight).all()
    assert np.ptp(same.bias - head.bias) < 1e-6
