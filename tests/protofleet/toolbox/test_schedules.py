"""Schedules against a count."""

from hypothesis import given
from hypothesis import strategies as st

from protofleet.toolbox.schedules import from_then_every


@given(start=st.integers(1, 30), interval=st.integers(1, 12))
def test_a_fleet_exchanges_at_the_first_round_and_every_so_many_from_there(start, interval):
    talking = [t for t in range(1, 100) if from_then_every(start, interval, t)]
    assert talking == list(range(start, 100, interval))


@given(round=st.integers(1, 300))
def test_gfpls_own_rule_is_the_same_at_its_own_settings(round):
    # Algorithm 2, line 14: t ≥ t1 and t mod S_T = 0, t1 = S_T = 10.
    assert from_then_every(10, 10, round) == (round >= 10 and round % 10 == 0)
