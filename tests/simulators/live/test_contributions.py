"""A live ledger of real processes ends in the laboratory's sums, to the bit."""

from dataclasses import replace

import pytest

from coordinator.journal.journal import Journal
from coordinator.service.extractors import RANDOM
from coordinator.service.replay import replayed
from protofleet.exchange.gathered import GROUP
from protofleet.mqtt.broker import mosquitto
from simulators.live import contributions, fleet
from simulators.run.config import MaskOptions
from simulators.run.setup import prepare
from tests.simulators.live.test_fleet import setup_of


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_devices_that_contribute_and_count_end_in_the_laboratorys_state(tmp_path):
    setup = setup_of("fleet", settings=("buckets=64",))
    live = fleet.run(setup, tmp_path, lambda row: None, "mosquitto")
    here = contributions.laboratory(setup, tmp_path / "coordinator-data" / RANDOM)
    assert live.state.sha256 == here.sha256
    assert live.rows[-1].accuracy["head"] > 0.7
    assert list(live.rows[-1].per_agent) == setup.agents
    journal = Journal.read(tmp_path / "coordinator-data")
    assert {state.verdict for state in replayed(journal)} == {"same"}
    assert journal.rounds() == []


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_five_devices_whose_sums_are_masked_end_in_the_same_state(tmp_path):
    plain = setup_of("fleet", agents=5)
    masks = MaskOptions(secure_sum=True, dropouts=1)
    live = fleet.run(
        prepare(replace(plain.config, masks=masks)), tmp_path, lambda row: None, "mosquitto"
    )
    here = contributions.laboratory(plain, tmp_path / "coordinator-data" / RANDOM)
    assert live.state.sha256 == here.sha256
    journal = Journal.read(tmp_path / "coordinator-data")
    assert {state.verdict for state in replayed(journal)} == {"same"}
    tables = journal.ledger
    assert {agent for agent, _ in (*tables.bodies(), *tables.counted())} == {GROUP}
