"""Lines that are cut or silent, and a carrier who repeats, delays and loses."""

import pytest

from simulators.faults.cases import links
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {"connections cut": (0,), "devices cut off": (2,), "unfaithful delivery": (0,)}
LONG = {"coordinator cut off", "one device cut off"}  # half a minute and more: in `make soak` alone


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(links.CASES, MOSQUITTO))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


def test_every_case_is_here():
    assert {case.name for case in links.CASES} == set(MOSQUITTO) | LONG
