"""The cross: everyone on the same devices, and every run made once."""

from dataclasses import replace

import numpy as np

from protofleet import registry
from simulators.papers.cross import CONTENDERS, FLEET, IMPROVED, PAPERS, TASKS, config_of, plan, run
from simulators.run.setup import prepare

PROTO, IMPROVED_PROTO = PAPERS[0], IMPROVED[0]


def test_a_seed_is_the_same_devices_for_everyone(ran):
    task, _, _ = ran
    dealt = [prepare(config_of(task, each, 4)).partition for each in (FLEET, PROTO)]
    for one, other in zip(*(d.shards for d in dealt), strict=True):
        assert np.array_equal(one.train, other.train)
        assert np.array_equal(one.test, other.test)
    other_seed = prepare(config_of(task, PROTO, 5)).partition
    assert not np.array_equal(dealt[0].shards[0].train, other_seed.shards[0].train)


def test_settings_are_the_task_s_then_the_contender_s_own(ran):
    task, _, _ = ran
    assert config_of(task, PROTO, 0).settings == ("lam=2",)
    assert config_of(task, replace(PROTO, settings=("lam=3",)), 0).settings == ("lam=2", "lam=3")
    improved = config_of(task, IMPROVED_PROTO, 0)
    assert (improved.run.common_start, improved.run.averaging) == ("yes", 10)
    assert config_of(task, FLEET, 0).settings == ()


def test_fleet_has_one_setting_for_all_tasks():
    assert {config_of(task, FLEET, 0).settings for task in TASKS} == {()}
    assert {config_of(task, FLEET, 0).run.backbone for task in TASKS} == {""}


def test_every_contender_is_a_method_and_every_run_is_planned_once():
    assert {each.method for each in CONTENDERS} <= set(registry.names())
    planned = [(t.name, c.name, s) for t, c, s in plan(2, (), ())]
    assert len(planned) == len(set(planned)) == 2 * len(TASKS) * len(CONTENDERS)
    assert {name for _, name, _ in planned} == {each.name for each in CONTENDERS}


def test_a_run_that_is_there_is_not_made_again(ran):
    task, out, known = ran
    document = out / "small" / "fleet" / "0" / "result.json"
    stamp = document.stat().st_mtime_ns
    run(task, FLEET, 0, out, 1)
    assert document.stat().st_mtime_ns == stamp
    assert sorted(known.of(task, FLEET)) == [0, 1]


def test_a_plan_of_some_is_a_part_of_the_plan_of_all():
    whole = [(t.name, c.name, s) for t, c, s in plan(2, (), ())]
    some = [(t.name, c.name, s) for t, c, s in plan(2, ("mnist",), ("fleet", "gfpl+"))]
    assert some == [step for step in whole if step[0] == "mnist" and step[1] in ("fleet", "gfpl+")]
    assert len(some) == 4
