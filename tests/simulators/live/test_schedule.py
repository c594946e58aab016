"""The laboratory by a schedule: with everyone there it is the plain run, and what a schedule
changes it changes.
"""

from dataclasses import replace

import pytest

from simulators.live import schedule
from simulators.run import rounds
from simulators.run.setup import prepare


def followed(setup, plan):
    context = setup.context()
    devices = {shard.agent: setup.agent(shard, context) for shard in setup.partition.shards}
    return schedule.follow(setup.recipe, setup.contract, setup.hyper, plan, devices)


@pytest.mark.parametrize("method", ["fedproto", "fedic", "gfpl", "moon"])
def test_with_nobody_lost_it_is_the_plain_run(small_lab, method):
    setup = prepare(small_lab(method, agents=3, rounds=3))
    plan = schedule.undisturbed(setup.recipe, setup.contract, setup.hyper, setup.agents, 3)
    states = followed(setup, plan)
    assert (
        states[max(states)] == rounds.run(setup, rounds.LabOptions(), lambda row: None).state.sha256
    )


def test_who_is_missing_in_a_cut_or_trains_nothing_changes_the_outcome(small_lab):
    setup = prepare(small_lab("moon", agents=3, rounds=2))
    whole = schedule.undisturbed(setup.recipe, setup.contract, setup.hyper, setup.agents, 2)
    late = [replace(whole[0], counted=whole[0].counted[:-1]), whole[1]]
    absent = [replace(late[0], trained=late[0].trained[:-1]), whole[1]]
    found = [followed(setup, plan)[2] for plan in (whole, late, absent)]
    assert len(set(found)) == 3
