"""Coordinator and devices die while sums are masked, and no promise with them."""

import pytest

from simulators.faults.cases import masks
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {
    "coordinator killed, masked": (1,),
    "coordinator killed, masked, under a budget": (8,),
    "device killed, masked": (2,),
    "device lost, masked": (),
    "too many lost, masked": (),
    "ledger killed, masked": (),
}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(masks.CASES, MOSQUITTO))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


def test_every_case_is_here():
    assert {case.name for case in masks.CASES} == set(MOSQUITTO)
