"""Coordinator, device, broker or all of them die by `kill -9`, and no promise with them."""

import pytest

from simulators.faults import soak
from simulators.faults.case import Attempt
from simulators.faults.cases import deaths
from simulators.faults.failpoint import Failpoint, resolve
from simulators.faults.testbed import Stuck
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {
    "coordinator killed, under a budget": (0, 6),
    "coordinator killed": (8, 30, 46),
    "coordinator killed, a late device": (12,),
    "coordinator killed, asynchronous": (4,),
    "device killed": (19,),
    "broker killed": (1,),
    "everything killed": (0,),
}
EMBEDDED = {"coordinator killed": (3,), "device killed": (5,), "broker killed": (1,)}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(deaths.CASES, MOSQUITTO, EMBEDDED))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


def test_every_case_is_here():
    assert {case.name for case in deaths.CASES} == set(MOSQUITTO)


@pytest.mark.parametrize(
    ("package", "table"),
    [
        ("coordinator", deaths.COORDINATOR),
        ("coordinator", deaths.SPENDING),
        ("edge_agent", deaths.DEVICE),
    ],
)
def test_every_failpoint_of_the_sweep_resolves(package, table):
    for seed in range(2 * len(table)):
        failpoint = deaths.draw_failpoint(package, table, seed)
        resolve(Failpoint.parse(str(failpoint)))


def test_as_many_seeds_as_functions_meet_every_function_and_twice_as_many_both_edges():
    for package, table in (("coordinator", deaths.COORDINATOR), ("edge_agent", deaths.DEVICE)):
        points = [deaths.draw_failpoint(package, table, seed) for seed in range(2 * len(table))]
        assert len({(point.module, point.name, point.edge) for point in points}) == 2 * len(table)


def test_a_case_fails_whose_first_death_never_comes(tmp_path, monkeypatch):
    never = Failpoint.of(deaths.Core.recover, "enter", 10_000)
    monkeypatch.setattr(deaths, "draw_failpoint", lambda *drawn: never)
    with pytest.raises(Stuck, match="before the instant"):
        deaths.coordinator_killed(Attempt(tmp_path, 0, soak.startable_brokers()[0]))
