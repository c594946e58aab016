"""The number of processes changes how long a run takes and nothing else."""

import os
import signal
from dataclasses import replace

import pytest

from protofleet.errors import CheckpointError, FleetError
from protofleet.exchange.state import GlobalState
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare
from simulators.run.workers import DealtCrew, Here, Local, hire


def ended(config, **how):
    return run(prepare(config), LabOptions(**how), lambda row: None)


# Sums, a bag of uploads, parts of a device's own, what a device remembers. Whatever else there is
# to fuse comes from the workers in the same way.
@pytest.mark.parametrize("method", ["fedavg", "gfpl", "fedic", "mpfedcl"])
def test_the_same_run_ends_in_the_same_state_whatever_the_workers(method, small_lab):
    config = small_lab(method, rounds=2)
    one, two = ended(config), ended(config, engine=Local(2))
    assert one.state.sha256 == two.state.sha256
    assert [row.accuracy for row in one.rows] == [row.accuracy for row in two.rows]


def test_another_seed_is_another_run(small_lab):
    one, other = (ended(small_lab(rounds=1, seed=seed)) for seed in (4, 5))
    assert one.state.sha256 != other.state.sha256


@pytest.fixture
def setup(small_lab):
    return prepare(small_lab(agents=4, rounds=1))


@pytest.fixture
def two(setup):
    crew = hire(setup, 2)
    assert isinstance(crew, DealtCrew)
    yield crew
    crew.close()


def test_two_processes_send_the_bytes_that_one_sends(setup, two):
    here = Here(setup, setup.agents)
    for crew in (here, two):
        crew.receive(0, GlobalState())
    assert two.work(1, setup.agents[:3]) == here.work(1, setup.agents[:3])
    one, other = here.checkpoint(), two.checkpoint()
    assert one.keys() == other.keys() == set(setup.agents)


def test_the_largest_devices_are_dealt_to_whoever_has_least(setup, two):
    sizes = {shard.agent: len(shard.train) for shard in setup.partition.shards}
    loads = [sum(sizes[agent] for agent in worker.agents) for worker in two.workers]
    assert sorted(agent for worker in two.workers for agent in worker.agents) == setup.agents
    assert max(loads) - min(loads) <= max(sizes.values())


def test_a_device_s_error_is_raised_and_the_next_order_gets_its_own_answer(setup, two):
    with pytest.raises(CheckpointError):
        two.restore({agent: {} for agent in setup.agents})
    two.receive(0, GlobalState())
    assert set(two.evaluate(0)) == set(setup.agents)


def test_a_worker_that_died_is_named_with_its_exit_code(setup, two):
    two.receive(0, GlobalState())
    os.kill(two.workers[1].process.pid, signal.SIGKILL)
    two.workers[1].process.join()
    with pytest.raises(FleetError, match="exit code -9"):
        two.evaluate(0)


def test_there_are_never_more_processes_than_devices(setup):
    assert isinstance(hire(setup, 1), Here)
    crew = hire(
        replace(setup, partition=replace(setup.partition, shards=setup.partition.shards[:1])), 8
    )
    assert isinstance(crew, Here)
