"""The same with real devices, torch and all."""

import pytest

from simulators.faults.cases import trained
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {"real devices": (1,)}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(trained.CASES, MOSQUITTO))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


def test_every_case_is_here():
    assert {case.name for case in trained.CASES} == set(MOSQUITTO)
