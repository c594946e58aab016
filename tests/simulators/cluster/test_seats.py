"""A worker that is lost is made anew with its devices as they were, at whatever order it dies."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from protofleet.errors import FleetError
from simulators.cluster.head import WorkerLost
from simulators.cluster.seats import LIVES, ClusterSeat, Seated
from simulators.run.rounds import LabOptions, run
from simulators.run.rundir import RunDir
from simulators.run.setup import prepare
from simulators.run.workers import DealtCrew, dealt


class Deadly:
    """A cluster in this process, in which some orders end in the death of who was given them."""

    def __init__(self, setup, deaths):
        self.setup, self.deaths, self.orders, self.seats = setup, deaths, 0, 0
        self.ray = SimpleNamespace(kill=lambda seat: seat.update(alive=False))

    beside = False

    def hire(self, setup):
        config = replace(setup.config, numerics=setup.contract.numerics)
        brought = replace(setup.supplied, shards=setup.partition.shards)

        def make(agents, *, again):
            self.seats += 1
            made = ClusterSeat(config, brought, setup.data, agents)
            seat = Addressed(alive=True)
            seat.carry = SimpleNamespace(remote=lambda *order: self._carry(seat, made, order))
            return seat

        return DealtCrew(
            [Seated(self, agents, make) for agents in dealt(setup.partition.shards, 2)]
        )

    def _carry(self, seat, made, order):
        self.orders += 1
        if self.orders in self.deaths:
            seat["alive"] = False
        return made.carry(*order) if seat["alive"] else WorkerLost("killed")

    def answer(self, answer):
        if isinstance(answer, WorkerLost):
            raise answer
        return answer

    def carried(self, value):
        return value

    def look(self):
        """It is there."""


class Addressed(dict):
    """What orders are sent to."""


@pytest.fixture
def deadly(small_lab, tmp_path):
    def ended(method, deaths, out=None):
        setup = prepare(small_lab(method, agents=4, rounds=4))
        engine = Deadly(setup, deaths)
        folder = None if out is None else RunDir(tmp_path / out)
        outcome = run(setup, LabOptions(engine, checkpoint_every=2), lambda row: None, folder)
        return outcome, engine

    return ended


@pytest.mark.parametrize("method", ["fedavg", "fedic", "mpfedcl"])
def test_whoever_dies_whenever_the_run_ends_in_the_same_state(method, deadly, capsys):
    whole, engine = deadly(method, ())
    rng = np.random.default_rng(0)
    for out in (None, "kept", None, "kept too"):
        deaths = rng.choice(engine.orders, LIVES - 1, replace=False) + 1
        killed, again = deadly(method, set(deaths), out)
        assert killed.state.sha256 == whole.state.sha256
        assert [row.accuracy for row in killed.rows] == [row.accuracy for row in whole.rows]
        assert again.seats > 2
    assert "devices are made again in another" in capsys.readouterr().err


def test_after_a_checkpoint_what_came_before_is_not_told_again(deadly):
    told = []
    for out in (None, "kept"):
        orders = deadly("fedproto", (), out)[1].orders
        told.append(
            deadly("fedproto", {orders}, f"{out} again" if out else None)[1].orders - orders
        )
    assert told[1] < told[0]


def test_who_is_lost_at_the_same_order_again_and_again_ends_the_run(deadly, capsys):
    with pytest.raises(FleetError, match=f"{LIVES} workers were lost at the same order"):
        deadly("fedproto", set(range(5, 200)))


def test_a_device_s_own_complaint_is_no_loss(small_lab):
    setup = prepare(small_lab(agents=2, rounds=1))
    engine = Deadly(setup, ())
    with pytest.raises(FleetError):
        engine.hire(setup).restore({agent: {} for agent in setup.agents})
    assert engine.seats == 2
