"""Somebody who means it: nothing of his is used, and nothing of the fleet's is lost."""

import pytest

from simulators.faults.cases import intruders
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {
    "intruder, bundles named": (0,),
    "intruder, uploads repeated": (0,),
    "intruder, a false coordinator": (0, 1),
}
EMBEDDED = {"intruder, bundles mutated": (0,)}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(intruders.CASES, MOSQUITTO, EMBEDDED))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


def test_every_case_is_here_and_marked():
    assert {case.name for case in intruders.CASES} == {*MOSQUITTO, *EMBEDDED}
    assert all(case.adversary for case in intruders.CASES)
