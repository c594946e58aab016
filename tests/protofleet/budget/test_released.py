import math

import numpy as np
import pytest

from protofleet.budget.noise import seeded
from protofleet.budget.released import (
    FEWEST,
    Mechanism,
    Released,
    beyond,
    noise_of,
    noise_steps,
    sum_of_steps,
)
from protofleet.errors import FusionError
from protofleet.masking.layout import Layout
from protofleet.values.sums import Sum, digest, merge, merge_all

SUMS = {
    "means": Released(4, (3,), 5.0, 0.6, 1.0, 0.2, most=100.0),
    "length": Released(1, (), 25.0, 0.2, most=100.0),
}
MECHANISM = Mechanism(SUMS, 0.5)


def own(seed):
    rng = np.random.default_rng(seed)
    keys = np.flatnonzero(rng.random(4) < 0.6)
    steps = rng.integers(-(2**14), 2**14, (len(keys), 3))
    weights = rng.integers(20, 99, len(keys))
    length = sum_of_steps(np.array([0]), np.array([7]), np.array([1]))
    return {"means": sum_of_steps(keys, steps, weights), "length": length}


def test_without_noise_what_is_released_is_what_was_summed():
    parts = [own(seed) for seed in range(5)]
    exact = Mechanism(SUMS, 1e12)  # so much ρ that no weight is doubted
    back = exact.narrowed(merge_all(exact.widened(part) for part in parts))
    plain = merge_all(parts)
    assert back["means"].digest() == plain["means"].digest()
    assert np.array_equal(back["length"].total(), plain["length"].total())


def test_every_row_is_there_whoever_has_it():
    one, none = MECHANISM.widened(own(1)), MECHANISM.widened({})
    for name in SUMS:
        assert np.array_equal(one[name].keys, none[name].keys)
        assert np.array_equal(one[name].weights, none[name].weights)


def test_noise_is_as_wide_as_the_budget_wants_it():
    """σ = Δ/√(2 ρ): ρ adds up over values, weights and sums to no more than the publication's."""
    rho = sum(
        (one.change / values) ** 2 / 2 + ((one.counted / counts) ** 2 / 2 if counts else 0)
        for one, (values, counts) in ((SUMS[n], MECHANISM.scales(n)) for n in SUMS)
    )
    assert rho == pytest.approx(0.5)
    many = Mechanism({"means": Released(4000, (3,), 5.0, 0.6, 1.0, 0.2)}, 0.5)
    noise = many.noise(seeded(np.random.default_rng(0)))["means"].total()
    assert noise[:, :3].std() == pytest.approx(5 / math.sqrt(0.6), rel=0.03)
    assert noise[:, 3].std() == pytest.approx(1 / math.sqrt(0.2), rel=0.05)


def test_noise_is_kept_as_whole_steps_and_comes_back():
    noise = MECHANISM.noise(seeded(np.random.default_rng(5)))
    again, total = noise_of(noise_steps(noise)), MECHANISM.widened(own(1))
    assert digest(merge(total, again)) == digest(merge(total, noise)) != digest(total)
    assert all(not part.weights.any() for part in again.values())


def test_noise_of_several_comes_to_that_of_one():
    sample = seeded(np.random.default_rng(0))
    many = Mechanism({"means": Released(3000, (), 5.0, 0.6)}, 0.5)
    together = merge_all(many.noise(sample, 1 / 8) for _ in range(8))["means"].total()
    assert together.std() == pytest.approx(5 / math.sqrt(0.6), rel=0.05)


@pytest.mark.parametrize("lost", range(4))
def test_with_up_to_as_many_lost_as_may_be_there_is_never_less_of_it(lost):
    """Seven devices of whom three may be lost: by the draws, against one sampler's σ."""
    sample, many = (
        seeded(np.random.default_rng(lost)),
        Mechanism({"m": Released(9000, (), 5, 1)}, 2),
    )
    there = merge_all(many.noise(sample, 1 / 4) for _ in range(7 - lost))["m"].total()
    assert there.var() == pytest.approx(5**2 / (2 * 2) * (7 - lost) / 4, rel=0.06)


def test_a_sum_of_parts_tells_no_more_than_one_sampler_however_many_they_are():
    """Kairouz, Liu and Steinke 2021: beside Δ/σ a sum of n tells τ for each number; parts as small
    as they come, a million numbers and devices.
    """
    scales = []

    def sample(scale, count):
        scales.append(scale)
        return np.zeros(count, np.int64)

    small = Mechanism({"m": Released(2, (3,), 1e-3, 0.5, 1e-3, 0.5)}, 1e3)
    small.noise(sample, 1e-6)
    assert scales == [FEWEST, FEWEST]
    tau = 10 * sum(math.exp(-2 * (math.pi * FEWEST) ** 2 * k / (k + 1)) for k in range(1, 10**6))
    assert tau * 1e6 < 1e-50
    # Who draws alone draws what was asked for: that needs no such bound.
    small.noise(sample)
    assert max(scales[2:]) < FEWEST


def test_what_a_total_has_beyond_its_sums_is_its_noise():
    plain = merge_all(MECHANISM.widened(own(seed)) for seed in range(3))
    noise = MECHANISM.noise(seeded(np.random.default_rng(5)))
    found, steps = beyond(merge(plain, noise), plain), noise_steps(noise)
    assert all(np.array_equal(found[name], steps[name]) for name in SUMS)
    with pytest.raises(FusionError, match="of other devices"):
        beyond(merge(plain, noise), MECHANISM.widened(own(1)))
    with pytest.raises(FusionError, match="of other devices"):
        beyond(merge(plain, noise), {name: plain[name] for name in list(SUMS)[:1]})


def test_a_row_that_nobody_stands_behind_is_dropped_and_the_others_keep_noisy_weights():
    total = merge_all(MECHANISM.widened(own(seed)) for seed in range(6))
    noisy = merge(total, MECHANISM.noise(seeded(np.random.default_rng(1))))
    back = MECHANISM.narrowed(noisy)["means"]
    plain = merge_all([own(seed) for seed in range(6)])["means"]
    assert set(back.keys) <= set(plain.keys)
    assert np.all(np.abs(back.weights - plain.weights[np.isin(plain.keys, back.keys)]) < 30)
    empty = merge(MECHANISM.widened({}), MECHANISM.noise(seeded(np.random.default_rng(2))))
    assert not len(MECHANISM.narrowed(empty)["means"].keys)


def test_it_has_room_under_masks_with_everybodys_noise():
    sample = seeded(np.random.default_rng(0))
    parts = [merge(MECHANISM.widened(own(s)), MECHANISM.noise(sample, 1 / 3)) for s in range(4)]
    layout = Layout.of(MECHANISM.rooms(), parts[0], 4)
    total = layout.zeros()
    for part in parts:
        total = total.plus(layout.pack(part))
    assert digest(layout.unpack(total)) == digest(merge_all(parts))


def test_what_is_not_to_be_released_is_refused():
    with pytest.raises(FusionError, match="other: not released"):
        MECHANISM.widened({"other": own(1)["means"]})
    with pytest.raises(FusionError, match="off the grid"):
        MECHANISM.widened({"means": Sum.of([0], [[2.0**-20, 0, 0]], 1)})
    with pytest.raises(FusionError, match=r"shares of 1\.2"):
        Mechanism({"means": Released(1, (), 1.0, 0.9, 1.0, 0.3)}, 1.0)
