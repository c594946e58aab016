import numpy as np
import pytest

from protofleet.budget.spread import denoised


def spiked(width=60, seed=0):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(width, width)))[0]
    values = np.full(width, 0.1)
    values[:3] = (9.0, 5.0, 3.0)
    return (basis * values) @ basis.T, basis


def noise(width, scale, seed=1):
    upper = np.triu(np.random.default_rng(seed).normal(size=(width, width)) * scale)
    return upper + np.triu(upper, 1).T


def test_directions_that_stand_out_are_found_again_and_the_rest_is_round():
    true, basis = spiked()
    trace = float(np.trace(true))
    clean = denoised(true + noise(60, 0.08), 0.08, trace)
    assert np.trace(clean) == pytest.approx(trace, rel=1e-6)
    values, vectors = np.linalg.eigh(clean)
    assert values.min() > 0
    assert values[-3:] == pytest.approx([3, 5, 9], rel=0.12)
    assert abs(vectors[:, -1] @ basis[:, 0]) > 0.95
    assert np.linalg.norm(clean - true) < 0.5 * np.linalg.norm(noise(60, 0.08))


def test_where_noise_hides_all_of_it_all_directions_are_alike():
    true, _ = spiked()
    clean = denoised(true + noise(60, 5.0), 5.0, 12.0)
    assert clean == pytest.approx(0.2 * np.eye(60), abs=1e-9)


def test_without_noise_it_stays():
    true, _ = spiked()
    assert denoised(true, 0.0, float(np.trace(true))) == pytest.approx(true, abs=2e-6)
