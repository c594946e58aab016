"""A second coordinator: at most one goes on, and the run ends with it."""

import pytest

from simulators.faults.cases import rivals
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {
    "second coordinator, same directory": (0,),
    "second coordinator, another directory": (0,),
    "second coordinator, a copy": (0,),
    "second coordinator, at the same moment": (1,),
}
EMBEDDED = {"second coordinator, same directory": (0,)}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(rivals.CASES, MOSQUITTO, EMBEDDED))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


def test_every_case_is_here():
    assert {case.name for case in rivals.CASES} == set(MOSQUITTO)
