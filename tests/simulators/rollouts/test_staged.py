"""The short form of `protofleet bench rollouts`: two devices, a good bundle and a bad one."""

import random

import pytest

from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from simulators.faults import testbed as trial
from simulators.rollouts.staged import TERMS, roll, staged

pytestmark = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")


def test_a_good_bundle_arrives_and_a_bad_one_goes_no_further(tmp_path):
    with running_broker(tmp_path / "broker", prefer="mosquitto") as broker:
        testbed = trial.Testbed(tmp_path / "fleet", str(broker.address), fleet="trial")
        with staged(testbed, 2, 1) as (fleet, processes):
            terms = {**TERMS, "groups": [0.4, 1.0], "trial": {"soak": 0.2}}
            bad = roll(fleet, "crashing", {}, random.Random(0), terms)
            assert (bad.phase, bad.left_on, bad.touched) == ("back", 0, 0)
            assert "the graph cannot be run" in bad.words
            good = roll(fleet, "good", processes, random.Random(0), terms)
            assert (good.phase, good.left_on, good.touched) == ("done", 2, 2)
            assert good.deaths > 0
