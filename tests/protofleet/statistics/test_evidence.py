"""What the total alone says of its shrinkage."""

import numpy as np
import pytest
from scipy.stats import invwishart, wishart

from protofleet.statistics import evidence
from protofleet.statistics.closed_form import SHRINKAGE, Moments
from protofleet.statistics.evidence import by_evidence


def of(within, samples, classes=4):
    counts = np.full(classes, samples / classes)
    means = np.zeros((classes, len(within)))
    return Moments(np.arange(classes), counts, means, np.asarray(within, float))


def test_few_samples_of_a_round_cloud_are_shrunk_and_many_of_a_flat_one_are_not():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 40))
    flat = np.diag(10.0 ** -np.arange(40.0).clip(0, 6))
    assert by_evidence(of(x.T @ x / 12, 12)).shrinkage >= 1
    assert by_evidence(of(flat, 40_000)).shrinkage <= 0.01


def test_the_difference_of_two_evidences_is_that_of_their_densities():
    """By Bayes: p(W) = p(W | Σ) p(Σ) / p(Σ | W), with scipy's densities, at any Σ."""
    rng = np.random.default_rng(2)
    d, samples, classes = 3, 30, 4
    x = rng.normal(size=(samples, d)) * [1, 2, 0.5]
    within = x.T @ x / samples
    size, free, sigma = np.trace(within) / d, samples - classes, np.diag([1.0, 3.0, 0.4])

    def density(shrinkage):
        degrees, scale = shrinkage * samples + d + 1, shrinkage * samples * size * np.eye(d)
        total = within * samples
        return (
            wishart.logpdf(total, free, sigma)
            + invwishart.logpdf(sigma, degrees, scale)
            - invwishart.logpdf(sigma, degrees + free, scale + total)
        )

    best = by_evidence(of(within, samples, classes)).shrinkage
    assert best == max(SHRINKAGE, key=density)


def test_the_distance_is_the_trace_at_that_shrinkage():
    within, samples = np.diag([4.0, 1.0, 1.0]), 1000.0
    choice = by_evidence(of(within, samples))
    shrunk = within + choice.shrinkage * 2.0 * np.eye(3)
    due = np.trace(np.linalg.solve(shrunk, within)) * samples / (samples - 4)
    assert choice.distance == pytest.approx(due)
    assert choice.temperature == evidence.TEMPERATURE
