"""What one device may cost: as much at once as a bucket holds, then what comes back with time."""

import pytest

from coordinator import allowance
from coordinator.allowance import RATES, Allowance


@pytest.mark.parametrize("kind", sorted(RATES))
def test_a_bucket_gives_its_burst_at_once_and_what_comes_back_with_time(kind):
    purse, rate = Allowance(), RATES[kind]
    part = rate.burst / 10
    assert [purse.spend(kind, "a", 0.0, part) for _ in range(11)] == [True] * 10 + [False]
    assert purse.spend(kind, "b", 0.0, part)
    assert purse.spend(kind, "a", part / rate.refill + 1e-6, part)
    assert purse.dropped == {kind: 1}


def test_what_no_bucket_could_pay_for_passes_when_it_is_full():
    purse = Allowance()
    assert purse.spend("bytes", "a", 0.0, 2 * RATES["bytes"].burst)
    assert not purse.spend("bytes", "a", 1.0, 1)
    assert purse.spend("bytes", "a", 100.0, 1)


def test_who_waits_is_not_counted_as_often_as_it_is_looked_at():
    purse = Allowance()
    while purse.spend("birth", "a", 0.0):
        pass
    assert [purse.may("birth", "a", now) for now in (0.1, 0.2, 1.1)] == [False, False, True]
    assert purse.dropped == {"birth": 1}


def test_buckets_are_bounded_and_empty_ones_are_remembered(monkeypatch):
    monkeypatch.setattr(allowance, "REMEMBERED", 100)
    purse = Allowance()
    while purse.spend("offer", "rogue", 0.0):
        pass
    for n in range(1000):
        purse.spend("report", f"ghost-{n}", n / 100)
    assert len(purse._buckets) <= 101
    assert not purse.spend("offer", "rogue", 4.0)
