"""Sites that die between their devices and the fleet above."""

import pytest

from simulators.faults.cases import sites
from tests.simulators.faults.playing import chosen, play

SHORT = {"sites killed": [5], "sites killed in rounds": [2]}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(sites.CASES, SHORT))
def test_every_promise_is_kept(case, broker, seed, tmp_path, monkeypatch):
    monkeypatch.setattr(sites, "DEVICES", 10)
    monkeypatch.setattr(sites, "SITES", 1)
    assert play(case, broker, seed, tmp_path)


def test_a_long_run_kills_at_fifty_instants_at_least():
    by_name = {case.name: case for case in sites.CASES}
    assert by_name["sites killed"].soak * sites.SITES >= 50
