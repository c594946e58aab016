"""Members are told by the span, less by means, and by a group the less the larger it is."""

import pytest

from simulators.attacks.defences import HELD_BACK, OPEN, Defences
from simulators.attacks.membership import by_device, by_group


@pytest.mark.parametrize("samples", [5, 20])
def test_an_open_covariance_tells_every_member(people, samples):
    span = by_device(people, samples, 4, OPEN)
    assert (span.attack, span.trials) == ("span", 4)
    assert span.area > 0.999
    assert span.caught > 0.99


def test_means_alone_tell_more_of_fewer_samples(people):
    few, more = (by_device(people, n, 6, Defences(covariance="off")) for n in (5, 20))
    assert few.attack == "mean"
    assert 0.7 < more.area < few.area < 1


def test_nothing_is_told_where_nothing_is_said(people):
    assert by_device(people, 2, 2, HELD_BACK) is None


def test_a_group_tells_less_the_larger_it_is(people):
    small, large = (by_group(people, 10, n, 2) for n in (100, 650))
    assert small.samples == 100
    assert 0.5 < large.area < small.area
    assert by_group(people, 10, 5000, 2) is None
