"""How long a device waits: twice as long each time, never longer than the longest."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.protocol.retry import RetryRules


def test_the_spread_of_a_device_scales_its_waiting():
    rules = RetryRules("a", first_wait=4.0, longest_wait=10.0, spread=0.5)
    assert [rules.wait(n) for n in range(3)] == [2.0, 4.0, 5.0]
    assert replace(rules, spread=1.0).wait(99) == 10.0


@given(st.integers(0, 10**9), st.floats(0.8, 1.2))
def test_waits_never_shrink_and_never_pass_the_longest_however_often_it_was_tried(attempt, spread):
    rules = RetryRules("a", spread=spread)
    assert 0 < rules.wait(attempt) <= rules.wait(attempt + 1) <= rules.longest_wait * spread
