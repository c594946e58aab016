"""The cross on small tasks: everyone on the same devices, run once, and told in tables."""

from dataclasses import replace

import numpy as np
import pytest

from protofleet import registry
from simulators.papers import newcomers
from simulators.papers.cross import (
    ABLATION,
    CONTENDERS,
    FLEET,
    IMPROVED,
    PAPERS,
    TASKS,
    Contender,
    Task,
    config_of,
    finished_runs,
    plan,
    run,
)
from simulators.papers.cross_page import (
    AllTasks,
    ablation,
    late_and_rare,
    narrowest,
    speed,
    table,
    told,
    verdicts,
)
from simulators.papers.newcomers import CASES, LATE, SHOTS, rare_class
from simulators.run.setup import prepare

PROTO, IMPROVED_PROTO = PAPERS[0], IMPROVED[0]
OWN = {"prototype": "prototype", "head": "head_own_classes"}


@pytest.fixture(scope="module")
def ran(small_lab, tmp_path_factory):
    task = Task("small", "Digits", small_lab(rounds=3), {"fedproto": ("lam=2",)}, OWN)
    out = tmp_path_factory.mktemp("cross")
    for contender in (FLEET, PROTO):
        for seed in (0, 1):
            run(task, contender, seed, out, 1)
    known = AllTasks(
        [task], {("small", c.name): finished_runs(task, c, 3, out) for c in (FLEET, PROTO)}
    )
    return task, out, known


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


def test_runs_are_kept_and_told_with_their_lead(ran):
    task, out, known = ran
    stamp = (out / "small" / "fleet" / "0" / "result.json").stat().st_mtime_ns
    run(task, FLEET, 0, out, 1)
    assert (out / "small" / "fleet" / "0" / "result.json").stat().st_mtime_ns == stamp
    assert sorted(known.of(task, FLEET)) == [0, 1]
    lead = narrowest(known, task, PROTO)
    ends = {
        name: np.mean([d["final"]["each"][name] for d in known.of(task, PROTO).values()])
        for name in ("prototype", "head_own_classes")
    }
    mine = np.mean([d["final"]["each"]["prototype"] for d in known.of(task, FLEET).values()])
    assert lead.mean == pytest.approx(mine - max(ends.values()))
    assert f"| FedProto | {told(lead)} | {int(lead.above)} of 1 |" in verdicts(known, [PROTO])
    rows = table(task, known, (FLEET, PROTO))
    assert len(rows) == 4
    assert f"| fleet | {100 * mine:.2f}" in rows[2]
    assert rows[3].endswith("| 2 |")
    best = max(ends.values())
    assert f"| FedProto | {100 * best:.2f} % | 3 |" in speed(known)[2]


def test_the_ablation_compares_on_the_seeds_that_both_have(ran):
    task, out, known = ran
    (bare,) = (each for each in ABLATION if each.name == "bare")
    run(task, bare, 1, out, 1)
    both = AllTasks([task], {**known.runs, ("small", "bare"): finished_runs(task, bare, 3, out)})
    mine, its = (both.of(task, each)[1]["final"]["each"]["prototype"] for each in (FLEET, bare))
    rows = ablation(task, both)
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| fleet", f"| {bare.title}"]
    assert rows[-1].endswith(f"| {100 * (mine - its):+.1f} (one seed) | 1 |")


def test_what_was_not_run_is_a_dash(ran):
    _, _, known = ran
    absent = Contender("absent", "Nobody", "fedproto")
    assert "| Nobody | – | 0 of 1 |" in verdicts(known, [absent])


def case(task, name):
    (finished_runs,) = (each for each in CASES if each.name == name)
    return replace(finished_runs, task=task)


def test_late_devices_have_few_samples_and_are_measured_as_they_come_and_later(ran, tmp_path):
    task, _, _ = ran
    late = case(task, "late")
    setup = prepare(config_of(task, FLEET, 0))
    dealt = late.deal(setup)
    for before, after in zip(setup.partition.shards[-LATE:], dealt.shards[-LATE:], strict=True):
        assert set(after.train) <= set(before.train)
        assert np.bincount(setup.data.y[after.train]).max() <= SHOTS
    assert dealt.shards[:-LATE] == setup.partition.shards[:-LATE]
    numbers = newcomers.run(late, FLEET, 0, tmp_path)
    assert list(numbers["prototype"]) == ["after 0", "after 1", "after 5"]
    assert newcomers.run(late, FLEET, 0, tmp_path) == numbers
    assert "| fleet | prototype" in "\n".join(late_and_rare([late], 1, tmp_path))


def test_the_rare_class_is_left_to_the_device_that_has_most_of_it(ran, tmp_path):
    task, _, _ = ran
    rare = case(task, "rare")
    setup = prepare(config_of(task, FLEET, 0))
    label, keeper = rare_class(setup.partition, setup.data.y, len(setup.data.classes))
    dealt = rare.deal(setup)
    holders = [s.agent for s in dealt.shards if (setup.data.y[s.train] == label).any()]
    assert holders == [keeper]
    tests = {s.agent: s.test for s in setup.partition.shards}
    assert all(np.array_equal(s.test, tests[s.agent]) for s in dealt.shards)
    numbers = newcomers.run(rare, FLEET, 0, tmp_path)["prototype_all_classes"]
    assert set(numbers) == {"the rare class", "the others"}
    assert all(0 <= value <= 1 for value in numbers.values())
