"""A trained agent's bundle, in a process without torch, is right as often as the agent."""

import pytest

from coordinator.uploads.fuse import start_state
from edge_agent.records import Checkpoint, OutboxEntry
from edge_agent.store import Store
from protofleet.errors import FleetError
from protofleet.exchange.snapshot import pack
from protofleet.recipe import Turn
from simulators.live.ondevice import answer
from simulators.run.result import Outcome
from simulators.run.rounds import one_round
from simulators.run.setup import RUN_ID, prepare
from simulators.run.workers import Here

BOOT = "b" * 16


@pytest.fixture
def trained(small_lab):
    """An outcome after two rounds, and its agents as they stand."""
    setup = prepare(small_lab("fedproto", agents=2))
    crew = Here(setup, setup.agents)
    state, rows = start_state(setup.recipe, Turn(setup.contract, setup.hyper, 0)), []
    crew.receive(0, state)
    for number in (1, 2):
        state, row = one_round(setup, crew, state, number)
        rows.append(row)
    return Outcome(setup, state, tuple(rows), 0.0, 0), crew


def leave(folder, agent, saved, state):
    """The agent's store, as a fleet leaves it."""
    store = Store(folder / "agents" / agent / "agent-data")
    store.take_over(BOOT)
    upload = OutboxEntry(RUN_ID, 2, state.base, "fedproto", "digest", b"body", BOOT, 2)
    store.commit_round(BOOT, RUN_ID, Checkpoint(2, 1, state.base, pack(saved)), upload, 2.0)
    store.close()


def test_the_device_knows_its_images_as_well_as_its_agent_does(trained, tmp_path):
    outcome, crew = trained
    agent = outcome.setup.agents[0]
    leave(tmp_path, agent, crew.checkpoint()[agent], outcome.state)
    device = answer(outcome, tmp_path, agent)
    (shard,) = [s for s in outcome.setup.partition.shards if s.agent == agent]
    assert device.images == len(shard.test) == len(list((tmp_path / "photos").iterdir()))
    assert device.right / device.images == pytest.approx(
        outcome.rows[-1].per_agent[agent]["prototype"], abs=1.5 / device.images
    )
    assert device.bundle_bytes == (tmp_path / "device.pfb").stat().st_size


def test_an_agent_that_has_not_trained_has_nothing_to_export(trained, tmp_path):
    outcome, _ = trained
    Store(tmp_path / "agents" / "agent-00" / "agent-data").close()
    with pytest.raises(FleetError, match="agent-00 has not trained yet"):
        answer(outcome, tmp_path, "agent-00")
