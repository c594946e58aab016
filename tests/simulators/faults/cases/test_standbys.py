"""A journal on a server: another machine takes over, and the server may die."""

import pytest

from simulators.faults.cases import deaths, standbys
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {
    "standby, coordinator killed at an instant": (4,),
    "standby, coordinator killed": (0,),
    "standby, coordinator thought dead": (0,),
    "journal's server killed": (1,),
}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(standbys.CASES, MOSQUITTO))
def test_every_promise_is_kept(case, broker, seed, tmp_path, postgres):
    assert play(case, broker, seed, tmp_path, postgres)


@pytest.mark.parametrize(
    ("case", "broker", "seed"), chosen(deaths.CASES, {"coordinator killed": (8,)})
)
def test_what_holds_for_a_journal_in_a_file_holds_on_a_server(
    case, broker, seed, tmp_path, postgres
):
    assert play(case, broker, seed, tmp_path, postgres)


def test_every_case_is_here():
    assert {case.name for case in standbys.CASES} == set(MOSQUITTO)
