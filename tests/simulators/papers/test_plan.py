"""What is run when: everything once, the papers' figures first, and how long it takes."""

import json
import shutil
from dataclasses import replace

import pytest

from simulators.papers import plan
from simulators.papers.cell import Cell, Places, changed, run_seed
from simulators.papers.plan import (
    STEPS,
    PlannedSeed,
    Step,
    Times,
    kind_of,
    missing,
    samples,
    state_of,
    tasks,
)
from simulators.papers.readings import every_cell
from simulators.run.workers import Local


def test_every_seed_of_every_cell_is_planned_once():
    planned = [(task.cell.name, task.seed) for task in tasks()]
    assert len(planned) == len(set(planned))
    due = {(cell.name, seed) for cell in every_cell().values() for seed in cell.due()}
    assert set(planned) == due
    assert {(name, seed) for name, seed in due if seed == 0} == {
        (task.cell.name, task.seed) for task in tasks(most=1)
    }


def test_the_papers_figures_come_in_their_order_and_one_seed_of_what_is_long_first():
    place = {(task.cell.name, task.seed): i for i, task in enumerate(tasks())}
    order = [
        ("mpfedcl-mnist", 2),
        ("gfpl-mnist-3", 0),
        ("fedmps-cifar10", 0),
        ("fedmps-none", 0),
        ("gfpl-local-3", 0),
        ("gfpl-mnist-3-15", 0),
        ("fedmps-fashion", 0),
        ("gfpl-mnist-3", 2),
        ("speed-cnn4-bf16", 0),
        ("fedmps-cifar10", 2),
        ("fedic-fashion-2", 0),
        ("fedic-fashion-dir", 0),
        ("protonorm-cifar10", 0),
        ("fedmps-fashion", 2),
        ("fedmps-n4", 0),
        ("fedic-fedproto-fashion-dir", 0),
        ("fedic-cifar10-dir", 0),
        ("protonorm-d64", 0),
        ("protonorm-cifar10-margins", 1),
        ("fedic-fashion-2", 1),
        ("fedic-cifar10-dir", 2),
    ]
    assert [place[each] for each in order] == sorted(place[each] for each in order)


def test_a_step_goes_seed_by_seed_and_a_later_one_takes_the_rest(small_lab):
    a, b = (Cell(name, "", small_lab(), "prototype", seeds=n) for name, n in (("a", 3), ("b", 2)))
    steps = (Step("first", (a, b), 1), Step("then", (b, a)))
    names = [(task.step, task.cell.name, task.seed) for task in tasks(steps)]
    assert names == [
        ("first", "a", 0),
        ("first", "b", 0),
        ("then", "b", 1),
        ("then", "a", 1),
        ("then", "a", 2),
    ]
    assert len(tasks(steps, most=2)) == 4


@pytest.fixture
def places(tmp_path):
    return Places(tmp_path / "runs", tmp_path / "records")


def test_what_is_on_record_is_not_missing_and_a_run_of_two_figures_is_named_once(small_lab, places):
    cell = Cell("small", "", small_lab(rounds=1), "prototype", seeds=2)
    twin = replace(cell, name="twin", runs="small")
    planned = tasks((Step("one", (cell, twin)),))
    assert len(planned) == 4
    assert [(t.cell.name, t.seed) for t in missing(planned, places)] == [("small", 0), ("small", 1)]
    run_seed(cell, 0, places, Local())
    assert [(t.cell.name, t.seed) for t in missing(planned, places)] == [("small", 1)]
    assert state_of(cell, places) == "1 of 2 seeds"
    assert state_of(twin, places, 1) == "1 of 1 seeds"
    shutil.rmtree(places.runs)
    assert state_of(cell, places) == "1 of 2 seeds"
    other = replace(cell, config=changed(cell.config, lr=0.5))
    assert state_of(other, places) == "not run"
    assert plan.foreign(places) == ["small/0"]


def test_a_kind_is_of_what_makes_a_sample_dear(small_lab):
    cell = Cell("small", "", small_lab(), "prototype")
    for same in (
        changed(cell.config, ("lam=3",)),
        changed(cell.config, lr=0.5, rounds=99, partition_seed=3, alpha=0.1, agents=9, limit=500),
    ):
        assert kind_of(replace(cell, config=same)) == kind_of(cell)
    for other in (
        changed(cell.config, batch_size=2),
        changed(cell.config, compile=True),
        changed(cell.config, method="fedmps"),
        changed(cell.config, backbone="mlp-wide"),
    ):
        assert kind_of(replace(cell, config=other)) != kind_of(cell)


def test_samples_of_a_round_are_those_that_devices_train_on():
    cells = every_cell()
    assert samples(cells["fedmps-cifar10"]) == 20 * 3 * 100
    assert samples(cells["fedmps-n4"]) == 20 * 4 * 100
    assert samples(cells["protonorm-cifar10"]) == 45_000
    assert samples(cells["mpfedcl-mnist"]) == 2000


def test_minutes_are_of_finished_runs_else_of_what_was_timed(small_lab, places):
    cell = Cell("small", "", small_lab(rounds=30), "prototype", seeds=1)
    like = replace(cell, name="like", config=changed(cell.config, lr=0.5))
    assert Times({}, {}).minutes(cell, places) is None
    known = Times({"small": 4.0}, {kind_of(cell): 4.0 / samples(cell)})
    assert known.minutes(cell, places) == 2
    assert known.minutes(like, places) == pytest.approx(2)
    short = replace(cell, config=changed(cell.config, rounds=2))
    run_seed(short, 0, places, Local())
    assert Times({"small": 4e6}, {}).minutes(short, places) < 5


def test_figures_are_in_the_order_of_what_they_still_take_and_a_run_is_counted_once(
    small_lab, places
):
    config = small_lab(rounds=1)
    long, short, there, unknown = (
        Cell(name, "", changed(config, lr=lr, rounds=rounds), "prototype", 0.5)
        for name, lr, rounds in (("l", 0.2, 90), ("s", 0.2, 30), ("t", 0.1, 1), ("u", 0.3, 1))
    )
    twin = replace(long, name="twin", runs="l")
    margins = replace(long, name="margins", paper=None)
    run_seed(there, 0, places, Local())
    ordered = plan.figures(
        (unknown, long, twin, margins, short, there), places, Times({"l": 4.0, "s": 4.0}, {})
    )
    assert [(f.cell.name, f.state, f.minutes) for f in ordered] == [
        ("t", "there", 0),
        ("s", "to run", 2),
        ("l", "to run", 6),
        ("twin", "by another", 6),
        ("u", "to run", None),
    ]


def test_what_was_measured_lies_beside_the_records(small_lab, tmp_path, monkeypatch):
    cell = Cell("small", "", small_lab(rounds=30), "prototype", seeds=1)
    whole = plan.measure(cell)
    assert 0 < whole < 60
    # A third of the samples is timed, and told as if it were all.
    monkeypatch.setattr(plan, "ENOUGH", 600)
    assert whole / 4 < plan.measure(cell) < 4 * whole
    plan.write_times(tmp_path, {"fedmps-cifar10": 2.0})
    assert json.loads((tmp_path / plan.TIMES).read_text()) == {"fedmps-cifar10": 2.0}
    there = plan.times(tmp_path)
    cells = every_cell()
    nowhere = Places(tmp_path / "runs", tmp_path)
    assert there.minutes(cells["fedmps-cifar10"], nowhere) == pytest.approx(500 * 2 / 60)
    # The ablation's rounds are as long; with four classes for three there is a third more to do.
    assert there.minutes(cells["fedmps-none"], nowhere) == pytest.approx(500 * 2 / 60)
    assert there.minutes(cells["fedmps-n4"], nowhere) == pytest.approx(500 * 2 / 60 * 4 / 3)
    assert there.minutes(cells["fedic-fashion-2"], nowhere) is None
    assert plan.times(None) == Times({}, {})


def test_a_plan_is_of_steps_with_cells():
    assert all(step.cells for step in STEPS)
    assert all(isinstance(task, PlannedSeed) for task in tasks())
