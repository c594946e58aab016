"""Ingesters and their coordinator die by `kill -9`, and no promise with them."""

import pytest

from simulators.faults.cases import deaths, ingesters
from simulators.faults.failpoint import Failpoint, resolve
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {"ingesters killed": (0, 1, 5), "coordinator killed, ingesters beside it": (1,)}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(ingesters.CASES, MOSQUITTO))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


@pytest.mark.parametrize("table", [ingesters.INGESTER, ingesters.COORDINATOR_BESIDE])
def test_every_failpoint_of_the_sweep_resolves(table):
    for seed in range(2 * len(table)):
        resolve(Failpoint.parse(str(deaths.draw_failpoint("coordinator", table, seed))))
