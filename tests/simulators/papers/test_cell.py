"""A cell: run once, found again, never taken for another; and the commands that repeat it."""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from protofleet.errors import FusionError, TrainingDiverged, UsageError, ValueRefused
from protofleet.exchange.snapshot import pack_state
from protofleet.exchange.state import GlobalState
from protofleet.util.files import lock
from protofleet.values.prototypes import Prototypes
from simulators.papers import cell as cells
from simulators.papers import records
from simulators.papers.cell import (
    MARGINS,
    Cell,
    Places,
    at_seed,
    changed,
    command_of,
    keep_embeddings,
    keep_run,
    kept,
    margins,
    recorded,
    run_seed,
    runs_of,
    standing,
)
from simulators.papers.readings import every_cell
from simulators.run import maps
from simulators.run.maps import EmbeddedSamples
from simulators.run.rounds import LabOptions, run_in
from simulators.run.setup import prepare
from simulators.run.workers import Local


def places_in(folder):
    return Places(folder / "runs", folder / "records")


def stamp(path):
    return path.stat().st_mtime_ns


def run_all(cell, places):
    for seed in cell.due():
        assert run_seed(cell, seed, places, Local())


def test_a_cell_is_run_once_and_only_under_its_own_settings(small_lab, tmp_path):
    cell = Cell("small", "A small cell", small_lab(rounds=1), "prototype", 0.1, seeds=2)
    places = places_in(tmp_path)
    run_all(cell, places)
    assert [run.seed for run in runs_of(cell, places)] == [0, 1]
    assert [run.seed for run in runs_of(cell, places, 1)] == [0]
    before = stamp(tmp_path / "runs" / "small" / "0" / "result.json")
    run_all(cell, places)
    assert stamp(tmp_path / "runs" / "small" / "0" / "result.json") == before
    for other in (
        changed(cell.config, lr=0.5),
        changed(cell.config, ("lam=2",)),
        changed(cell.config, rounds=2),
        changed(cell.config, layout="channels-last"),
    ):
        assert not runs_of(replace(cell, config=other), places)


def test_a_seed_on_record_is_not_run_again_on_another_machine(small_lab, tmp_path):
    cell = Cell("small", "A small cell", small_lab(rounds=2), "prototype", seeds=1)
    places = places_in(tmp_path)
    run_all(cell, places)
    (run,) = runs_of(cell, places)
    assert run.document["data"]
    shutil.rmtree(tmp_path / "runs")
    assert run_seed(cell, 0, places, Local())
    assert not (tmp_path / "runs").exists()
    assert runs_of(cell, places) == [run]


def test_a_run_from_before_there_were_records_leaves_one(small_lab, tmp_path):
    cell = Cell("small", "A small cell", small_lab(rounds=1), "prototype", seeds=1)
    run_all(cell, Places(tmp_path / "runs"))
    places = places_in(tmp_path)
    before = stamp(tmp_path / "runs" / "small" / "0" / "result.json")
    run_all(cell, places)
    assert stamp(tmp_path / "runs" / "small" / "0" / "result.json") == before
    assert records.read(tmp_path / "records", "small", 0).finished


def test_a_run_of_other_settings_is_put_aside(small_lab, tmp_path):
    places = places_in(tmp_path)
    cell = Cell("small", "A small cell", small_lab(rounds=1), "prototype", seeds=1)
    run_all(cell, places)
    other = replace(cell, config=changed(cell.config, lr=0.5))
    run_all(other, places)
    assert runs_of(other, places)
    assert not runs_of(cell, places)
    assert (tmp_path / "runs" / "small" / "0.before-1" / "result.json").exists()


def test_what_another_process_is_at_is_left_to_it(small_lab, tmp_path):
    cell = Cell("small", "A small cell", small_lab(rounds=1), "prototype", seeds=1)
    places = places_in(tmp_path)
    with lock(places.run(cell, 0)):
        assert not run_seed(cell, 0, places, Local())
    assert not runs_of(cell, places)


@pytest.mark.parametrize("kind", [TrainingDiverged, ValueRefused, FusionError])
def test_one_that_ended_in_numbers_that_are_not_finite_is_not_tried_again(
    kind, small_lab, tmp_path, monkeypatch
):
    cell = Cell("small", "A small cell", small_lab(rounds=1), "prototype", seeds=1)
    places, tries = places_in(tmp_path), []

    def diverging(*words, **more):
        tries.append(words)
        raise kind("loss is nan")

    monkeypatch.setattr(cells, "result_of", diverging)
    with pytest.raises(kind):
        run_seed(cell, 0, places, Local())
    assert run_seed(cell, 0, places, Local())
    assert len(tries) == 1
    assert kept(cell, 0, places).failure == "loss is nan"
    assert not runs_of(cell, places)


def test_an_unfinished_run_stands_where_its_checkpoint_is(small_lab, tmp_path):
    cell = Cell("small", "A small cell", small_lab(rounds=6), "prototype", seeds=1)
    places = places_in(tmp_path)

    class Cut(Exception):
        pass

    def cut_after_five(row):
        if row.round == 5:
            raise Cut

    setup = prepare(at_seed(cell.config, 0))
    with pytest.raises(Cut):
        run_in(setup, LabOptions(checkpoint_every=2), cut_after_five, places.run(cell, 0))
    record = standing(cell, 0, places)
    assert record.rounds == 4
    assert 0 <= cell.value(record) <= 1
    assert kept(cell, 0, places) is None
    # What was kept of it says so where its folder is gone, and stands in nobody's way.
    keep_run(cell, 0, places)
    shutil.rmtree(tmp_path / "runs")
    assert standing(cell, 0, places).rounds == 4
    run_all(cell, places)
    assert kept(cell, 0, places).rounds == 6
    keep_run(cell, 0, places)
    assert records.read(tmp_path / "records", "small", 0).finished


def test_of_a_run_made_elsewhere_record_and_samples_are_kept(small_lab, tmp_path):
    cell = Cell("small", "A small cell", small_lab(rounds=1), "prototype", seeds=1)
    places = places_in(tmp_path)
    keep_embeddings(cell, 0, places)
    assert not tmp_path.joinpath("runs").exists()
    run_all(cell, Places(places.runs))
    assert recorded(cell, 0, places) is None
    keep_run(cell, 0, places)
    assert recorded(cell, 0, places).finished
    # One that ended before samples were kept: they are those of the weights that it left.
    path = places.run(cell, 0)
    before, result = EmbeddedSamples.read(path), (path / "result.json").read_bytes()
    (path / maps.FILE).unlink()
    keep_embeddings(cell, 0, places)
    np.testing.assert_array_equal(EmbeddedSamples.read(path).points, before.points)
    assert (path / "result.json").read_bytes() == result
    # Without the weights there is no picture, and no harm.
    (path / maps.FILE).unlink()
    for checkpoint in path.glob("checkpoint-*"):
        (checkpoint / "rows.json").write_text("{")
    keep_embeddings(cell, 0, places)
    assert not (path / maps.FILE).exists()


def test_two_figures_of_one_run_are_run_once(small_lab, tmp_path):
    cell = Cell("small", "A small cell", small_lab(rounds=1), "prototype", seeds=1)
    twin = replace(cell, name="twin", evaluator="head", runs="small")
    places = places_in(tmp_path)
    run_all(cell, places)
    (run,) = runs_of(twin, places)
    assert twin.value(run) == run.accuracy("head", "devices", "last")
    assert not (tmp_path / "runs" / "twin").exists()


def test_the_figure_is_of_the_round_and_the_mean_that_the_paper_reports(small_lab, tmp_path):
    cell = Cell("small", "A small cell", small_lab(rounds=4), "prototype", seeds=1)
    places = places_in(tmp_path)
    run_all(cell, places)
    (run,) = runs_of(cell, places)
    result = json.loads((places.run(cell, 0) / "result.json").read_text())
    for over, kind in (("devices", "accuracy"), ("samples", "pooled")):
        curve = [row[kind]["prototype"] for row in result["rounds"]]
        held_to = replace(cell, over=over)
        assert held_to.value(run, "last") == pytest.approx(curve[-1], abs=1e-6)
        assert replace(held_to, pick="best").value(run) == pytest.approx(max(curve), abs=1e-6)


def test_margins_are_the_distance_to_the_nearest_other_class(tmp_path, small_lab):
    hexagon = [[math.cos(i * math.pi / 3), math.sin(i * math.pi / 3)] for i in range(6)]
    (tmp_path / "even").write_bytes(
        pack_state(GlobalState({"prototypes": Prototypes(range(6), hexagon)}))
    )
    line = Prototypes([0, 1, 2], [[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]])
    (tmp_path / "line").write_bytes(pack_state(GlobalState({"prototypes": line})))
    assert margins(tmp_path / "even") == pytest.approx(1)
    assert margins(tmp_path / "line") == pytest.approx(1 / 4)
    (tmp_path / "none").write_bytes(pack_state(GlobalState({})))
    assert margins(tmp_path / "none") is None
    cell = Cell("small", "", small_lab(rounds=1), MARGINS, seeds=1)
    places = places_in(tmp_path)
    run_all(cell, places)
    (run,) = runs_of(cell, places)
    assert 0 < cell.value(run) <= 1
    assert run.curve("devices")


def test_options_go_to_their_section_and_settings_to_the_method(small_lab):
    config = changed(small_lab(), ("lam=2",), rounds=9, alpha=0.3, lr=0.5, compile=True)
    assert (config.run.rounds, config.partition.alpha, config.training.lr) == (9, 0.3, 0.5)
    assert config.numerics.compile
    assert config.settings == ("lam=2",)
    assert at_seed(config, 7).run.seed == 7
    with pytest.raises(UsageError, match="no option is called epochs"):
        changed(config, epochs=3)


def test_a_cell_prints_the_command_that_repeats_it():
    words = command_of(every_cell()["fedproto-cifar10"].config)
    assert words.startswith("protofleet simulate --method fedproto")
    assert "--partition-seed 1234" in words
    assert "--augment crop-flip" in words
    assert "--agents" not in words  # 20 is the default


def decided(config, paper, **more):
    return Cell("small", "A small cell", config, "prototype", paper, seeds=1, pick="best", **more)


def test_a_run_may_be_left_when_its_best_has_reached_the_figure_and_goes_on_later(
    small_lab, tmp_path
):
    places = places_in(tmp_path)
    cell = decided(small_lab(rounds=12), 0.2)
    assert run_seed(cell, 0, places, Local(), decide=True)
    left = standing(cell, 0, places)
    assert left.rounds == 5  # at a checkpoint, from which it can go on
    assert cell.settled(left)
    assert kept(cell, 0, places) is None
    assert records.read(places.records, "small", 0).rounds == 5
    # Asked again nothing is run, and without the option it goes to its end as if never left.
    assert run_seed(cell, 0, places, Local(), decide=True)
    assert standing(cell, 0, places).rounds == 5
    assert run_seed(cell, 0, places, Local())
    whole = places_in(tmp_path / "whole")
    assert run_seed(cell, 0, whole, Local())
    ours, theirs = (kept(cell, 0, there).document for there in (places, whole))
    assert ours["curve"] == theirs["curve"]
    assert kept(cell, 0, places).finished


def test_what_is_not_reached_goes_to_its_end(small_lab, tmp_path):
    places = places_in(tmp_path)
    cell = decided(small_lab(rounds=6), 1.5)
    assert run_seed(cell, 0, places, Local(), decide=True)
    assert kept(cell, 0, places).finished


def test_a_figure_that_can_fall_again_is_not_decided_before_the_end(small_lab, tmp_path):
    places = places_in(tmp_path)
    cell = replace(decided(small_lab(rounds=6), 0.1), pick="last")
    assert run_seed(cell, 0, places, Local(), decide=True)
    assert kept(cell, 0, places).finished
