"""The cross: everyone on the same devices, and every run made once."""

from dataclasses import replace

import numpy as np
import pytest

from protofleet import registry
from protofleet.util.files import lock
from simulators.cross.cross import (
    CONTENDERS,
    FLEET,
    FULL_CONTENDERS,
    FULL_TASKS,
    IMPROVED,
    PAPERS,
    TASKS,
    Task,
    config_of,
    document_of,
    place,
    plan,
    run,
)
from simulators.cross.paired import crossed
from simulators.papers.cell import Places, changed
from simulators.run.rounds import LabOptions
from simulators.run.rounds import run as ended
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
    assert (
        len(planned)
        == len(set(planned))
        == 2 * (len(TASKS) * len(CONTENDERS) + len(FULL_TASKS) * len(FULL_CONTENDERS))
    )
    assert {name for _, name, _ in planned} == {each.name for each in CONTENDERS}


def test_a_run_that_is_there_is_not_made_again(ran):
    task, places, known = ran
    document = place(places, task, FLEET, 0) / "result.json"
    stamp = document.stat().st_mtime_ns
    run(task, FLEET, 0, places, 1)
    assert document.stat().st_mtime_ns == stamp
    assert sorted(known.of(task, FLEET)) == [0, 1]
    # Nor one that is on record alone, nor one that another process is at.
    elsewhere = Places(places.runs.parent / "elsewhere", places.records)
    run(task, FLEET, 0, elsewhere, 1)
    assert not elsewhere.runs.exists()
    with lock(place(elsewhere, task, FLEET, 7)):
        run(task, FLEET, 7, elsewhere, 1)
    assert document_of(task, FLEET, 7, elsewhere) is None


def test_on_everyone_s_samples_the_weights_of_the_same_run_are_asked(ran):
    task, places, _ = ran
    config = changed(task.config, test_on="everyone")
    compared = {"prototype": "prototype_all_classes", "head": "head"}
    everyone = Task("all", "", config, task.settings, compared, asks_again=task)
    run(everyone, PROTO, 0, places, 1)
    again = document_of(everyone, PROTO, 0, places)
    straight = ended(prepare(config_of(everyone, PROTO, 0)), LabOptions(), lambda row: None)
    assert again["final"]["each"] == pytest.approx(dict(straight.rows[-1].accuracy))
    assert again["final"]["each"] != known_accuracy(task, places)
    whole = document_of(task, PROTO, 0, places)
    assert crossed(again) == crossed(whole)
    stamp = place(places, task, PROTO, 0).stat().st_mtime_ns
    # Where the weights are gone the run is made again.
    fresh = Places(places.runs.parent / "fresh", places.records)
    run(everyone, PROTO, 1, fresh, 1)
    assert document_of(everyone, PROTO, 1, fresh) is not None
    assert place(places, task, PROTO, 0).stat().st_mtime_ns == stamp


def known_accuracy(task, places):
    return document_of(task, PROTO, 0, places)["final"]["each"]


def test_at_the_papers_length_are_the_papers_devices_and_their_rounds():
    names = {task.name: task for task in FULL_TASKS}
    assert len(names) == 4
    for task, rounds in (("paper-cifar10", 500), ("paper-fashion", 800)):
        for name in (task, f"{task}-everyone"):
            proto, fleet = (config_of(names[name], each, 0).run for each in (PROTO, FLEET))
            assert (proto.rounds, proto.partition_seed, proto.agents) == (rounds, 1234, 20)
            assert fleet.rounds < 100
            assert proto.test_on == ("everyone" if "everyone" in name else "own")
            assert names[name].config.partition.test_shots == 15
        everyone = names[f"{task}-everyone"]
        assert everyone.asks_again == names[task]
        for contender in FULL_CONTENDERS:
            one, other = (config_of(t, contender, 0) for t in (everyone, names[task]))
            assert one == changed(other, test_on="everyone")


def test_a_plan_of_some_is_a_part_of_the_plan_of_all():
    whole = [(t.name, c.name, s) for t, c, s in plan(2, (), ())]
    some = [(t.name, c.name, s) for t, c, s in plan(2, ("mnist",), ("fleet", "gfpl+"))]
    assert some == [step for step in whole if step[0] == "mnist" and step[1] in ("fleet", "gfpl+")]
    assert len(some) == 4
