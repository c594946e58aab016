"""Wall clocks that jump by a year at every look."""

import pytest

from simulators.faults.cases import clocks
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {"clocks jump": (0,)}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(clocks.CASES, MOSQUITTO))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


def test_every_case_is_here():
    assert {case.name for case in clocks.CASES} == set(MOSQUITTO)
