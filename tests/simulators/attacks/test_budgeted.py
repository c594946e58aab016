import numpy as np
import pytest

from protofleet.budget.accountant import epsilon_of, rho_of
from protofleet.errors import DataError
from simulators.attacks import budgeted


def crowd(seed=0, count=900, width=40):
    """Classes a little apart, most of their spread in a few directions."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, count)
    middles = 2.0 * np.random.default_rng(9).normal(size=(4, width))
    wide = np.where(np.arange(width) < 4, 4.0, 1.0)
    return (5 + middles[labels] + wide * rng.normal(size=(count, width))).astype("f4"), labels


def test_less_is_known_of_members_and_the_accountant_says_how_much():
    # So few members that their covariance gives them away.
    task = budgeted.dealt(*crowd(width=100), samples=200, seed=0)
    assert len(task.members.labels) == 200
    plain, under = budgeted.measured(task, (0.0, 3.0), 1e-5, 40.0, seed=0)
    assert plain.area > 0.75
    assert under.area < plain.area - 0.1
    assert under.area == max(under.by_mean, under.by_covariance)
    assert plain.spent == 0
    assert under.spent == epsilon_of(rho_of(3.0, 1e-5), 1e-5)


def test_of_many_samples_noise_takes_little():
    task = budgeted.dealt(*crowd(count=5000), samples=4400, seed=0)
    plain, under = budgeted.measured(task, (0.0, 8.0), 1e-5, 40.0, seed=0)
    assert plain.accuracy > 0.95
    assert under.accuracy > plain.accuracy - 0.03


def test_a_file_needs_strangers(tmp_path):
    np.savez(tmp_path / "few.npz", f=np.zeros((40, 3), np.float32), y=np.zeros(40))
    with pytest.raises(DataError, match="leave too few strangers"):
        budgeted.of_file(tmp_path / "few.npz", 30, 0)


def test_of_too_few_nothing_comes_out():
    task = budgeted.dealt(*crowd(), samples=40, seed=0)
    (under,) = budgeted.measured(task, (1.0,), 1e-5, 40.0, seed=0)
    assert (under.accuracy, under.area) == (0.0, 0.5)
