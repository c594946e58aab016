"""A tree that is killed, beside one coordinator: small, as `protofleet bench sites` has it."""

import pytest

from protofleet.mqtt.broker import mosquitto
from simulators.cli.bench_sites_cmd import table
from simulators.trees.deadly import TreeOptions, bench_sites


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_one_death_and_the_same_state(tmp_path):
    told = []
    answer = bench_sites(TreeOptions(sites=1, devices=3, kills=1), tmp_path, told.append)
    assert answer["same"]
    assert told[0] == "1 of 1 deaths"
    assert "the same" in table(answer)
