"""Who takes part is a function of fleet and round, and of nothing else."""

from collections import Counter

import pytest

from coordinator.rounds.selection import lots_of, participants
from tests.coordinator.made import CONTRACT

FLEET = [f"device-{n:02}" for n in range(30)]


@pytest.mark.parametrize(
    ("share", "count"), [(0.0, 1), (0.01, 1), (0.1, 3), (0.11, 4), (0.5, 15), (1.0, 30)]
)
def test_the_share_is_rounded_up_and_never_nobody(share, count):
    chosen = participants(CONTRACT, 1, FLEET, share)
    assert len(chosen) == len(set(chosen)) == count
    assert chosen == sorted(chosen)


def test_the_order_in_which_devices_came_changes_nothing():
    assert participants(CONTRACT, 3, FLEET, 0.3) == participants(CONTRACT, 3, FLEET[::-1], 0.3)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99, 1.0])
def test_each_device_finds_by_its_own_lot_whether_it_was_asked(share):
    chosen = participants(CONTRACT, 4, FLEET, share)
    lots = lots_of(CONTRACT, 4, chosen)
    assert [name for name in FLEET if lots.ask(name)] == chosen


def test_rounds_differ_and_nobody_is_left_out_for_good():
    rounds = [tuple(participants(CONTRACT, number, FLEET, 0.2)) for number in range(60)]
    assert len(set(rounds)) == 60
    assert set(Counter(agent for chosen in rounds for agent in chosen)) == set(FLEET)
