import numpy as np
import pytest
from scipy.stats import chi2

from protofleet.budget.noise import drawn, in_pieces, seeded
from protofleet.errors import UsageError
from protofleet.util import extras


def masses(scale, reach):
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (values / scale) ** 2)
    return weights / weights.sum()


@pytest.mark.parametrize("sample", [drawn, seeded(np.random.default_rng(1))], ids=["os", "seed"])
@pytest.mark.parametrize("scale", [0.8, 3.0])
def test_numbers_have_the_masses_of_the_discrete_gaussian(sample, scale):
    count, reach = 6000, round(2.5 * scale)
    numbers = sample(scale, count)
    inside = numbers[np.abs(numbers) <= reach]
    expected = masses(scale, 60)[60 - reach : 61 + reach] * count
    observed = np.bincount(inside + reach, minlength=2 * reach + 1)
    beyond = count - len(inside), count - expected.sum()
    distance = ((observed - expected) ** 2 / expected).sum() + (
        beyond[0] - beyond[1]
    ) ** 2 / beyond[1]
    assert distance < chi2.ppf(0.9999, 2 * reach + 1)


@pytest.mark.parametrize("scale", [50.0, 1e6])  # by the table, and beyond it
def test_large_noise_is_as_wide_as_it_is_said_to_be(scale):
    for sample in (drawn, seeded(np.random.default_rng(2))):
        numbers = sample(scale, 2000)
        assert numbers.dtype == np.int64
        assert np.std(numbers) == pytest.approx(scale, rel=0.08)
        assert abs(numbers.mean()) < 5 * scale / np.sqrt(2000)


def test_a_seed_repeats_and_the_system_does_not():
    one, two = (seeded(np.random.default_rng(3))(100.0, 50) for _ in range(2))
    assert np.array_equal(one, two)
    assert not np.array_equal(drawn(100.0, 50), drawn(100.0, 50))


def test_a_device_that_has_no_sampler_says_so_in_one_line(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda package: None)
    with pytest.raises(UsageError, match=r"budgets need the package opendp.*protofleet\[privacy\]"):
        drawn(1.0, 1)


def test_in_pieces_it_is_as_much_and_others_have_their_turn_between():
    turns, sizes = [], []

    def sample(scale, count):
        sizes.append((scale, count))
        return np.arange(count)

    pieces = in_pieces(sample, lambda: turns.append(1), 4)
    assert len(pieces(2.0, 10)) == 10
    assert (sizes, len(turns)) == ([(2.0, 4), (2.0, 4), (2.0, 2)], 3)
    assert len(pieces(2.0, 0)) == 0
