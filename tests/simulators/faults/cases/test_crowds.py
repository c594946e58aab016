"""Too many devices at once, and garbage as fast as the line takes it."""

import random

import pytest

from protofleet import wire
from protofleet.mqtt.address import Address
from simulators.faults import testbed as trial
from simulators.faults.cases import crowds
from tests.simulators.faults.playing import chosen, play

MOSQUITTO = {"two hundred at once": (0,), "garbage at line rate": (0,)}


@pytest.mark.parametrize(("case", "broker", "seed"), chosen(crowds.CASES, MOSQUITTO))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


def test_every_case_is_here():
    assert {case.name for case in crowds.CASES} == set(MOSQUITTO)


def test_the_rogue_stays_on_topics_of_its_own_and_its_honest_upload_is_one(tmp_path):
    testbed = trial.Testbed(tmp_path, "mqtt://127.0.0.1:1")
    rogue = crowds.Rogue(Address.parse(testbed.url), testbed, random.Random(0))
    honest = rogue._honest()
    assert wire.decode(honest).envelope.agent == "stranger"
    for _ in range(200):
        topic, _ = rogue._something(honest)
        assert "/d/rogue/" in topic
