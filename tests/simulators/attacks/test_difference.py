"""Two contributions that differ by one sample give it away."""

import numpy as np
import pytest

from simulators.attacks.defences import HELD_BACK, OPEN, Defences, spoken
from simulators.attacks.difference import between, differences


def test_one_new_sample_is_the_difference_of_sums(people):
    rows = people.private.of_class(4)[:9]
    one, two = (
        spoken(people.private.features[part], people.private.labels[part], people.grid, OPEN)
        for part in (rows[:8], rows)
    )
    told = between(one, two)
    assert told.keys() == {4}
    assert told[4] == pytest.approx(people.private.features[rows[8]], abs=0.02)
    assert between(two, two) == {}


def test_five_together_are_told_much_less(people, trained):
    before, after = (differences(people, trained, 20, 20, d) for d in (OPEN, HELD_BACK))
    assert before.retrieved == 1
    assert before.centred > 0.9
    assert (after.new, after.devices) == (5, 20)
    assert after.centred < 0.7
    assert after.retrieved < 0.6
    assert np.isfinite(after.ssim)


def test_nothing_is_said_twice_where_too_few_came(people, trained):
    assert differences(people, trained, 2, 4, Defences(minimum=5)) is None
