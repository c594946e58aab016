"""A cell: run once, found again, never taken for another; and the commands that repeat it."""

import math

import pytest

from protofleet.exchange.snapshot import pack_state
from protofleet.exchange.state import GlobalState
from protofleet.values.prototypes import Prototypes
from simulators.papers.cell import (
    MARGINS,
    Cell,
    at_seed,
    changed,
    command_of,
    finished_runs,
    margins,
    run_cell,
)
from simulators.papers.readings import ORDER


def test_a_cell_is_run_once_and_only_under_its_own_settings(small_lab, tmp_path):
    cell = Cell("small", "A small cell", small_lab(rounds=1), "prototype", 0.1, more_seeds=-1)
    run_cell(cell, 3, tmp_path, 1)
    assert [run.seed for run in finished_runs(cell, 3, tmp_path)] == [0, 1]
    stamp = (tmp_path / "small" / "0" / "result.json").stat().st_mtime_ns
    run_cell(cell, 3, tmp_path, 1)
    assert (tmp_path / "small" / "0" / "result.json").stat().st_mtime_ns == stamp
    for other in (
        changed(cell.config, lr=0.5),
        changed(cell.config, ("lam=2",)),
        changed(cell.config, rounds=2),
    ):
        assert not finished_runs(Cell("small", "", other, "prototype"), 2, tmp_path)
    assert not finished_runs(
        Cell("small", "", changed(cell.config, layout="channels-last"), "prototype"), 2, tmp_path
    )


def test_the_figure_is_the_last_round_s_or_the_best_s(small_lab, tmp_path):
    cell = Cell("small", "A small cell", small_lab(rounds=4), "prototype")
    run_cell(cell, 1, tmp_path, 1)
    (run,) = finished_runs(cell, 1, tmp_path)
    curve = [row["accuracy"]["prototype"] for row in run.document["rounds"]]
    assert run.value(cell, "last") == curve[-1]
    assert run.value(cell, "best") == max(curve)


def test_margins_are_the_distance_to_the_nearest_other_class(tmp_path, small_lab):
    hexagon = [[math.cos(i * math.pi / 3), math.sin(i * math.pi / 3)] for i in range(6)]
    (tmp_path / "even").write_bytes(
        pack_state(GlobalState({"prototypes": Prototypes(range(6), hexagon)}))
    )
    line = Prototypes([0, 1, 2], [[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]])
    (tmp_path / "line").write_bytes(pack_state(GlobalState({"prototypes": line})))
    assert margins(tmp_path / "even") == pytest.approx(1)
    assert margins(tmp_path / "line") == pytest.approx(1 / 4)
    cell = Cell("small", "", small_lab(rounds=1), MARGINS)
    run_cell(cell, 1, tmp_path, 1)
    assert 0 < finished_runs(cell, 1, tmp_path)[0].value(cell, "last") <= 1


def test_options_go_to_their_section_and_settings_to_the_method(small_lab):
    config = changed(small_lab(), ("lam=2",), rounds=9, alpha=0.3, lr=0.5, compile=True)
    assert (config.run.rounds, config.partition.alpha, config.training.lr) == (9, 0.3, 0.5)
    assert config.numerics.compile
    assert config.settings == ("lam=2",)
    assert at_seed(config, 7).run.seed == 7


def test_a_cell_prints_the_command_that_repeats_it():
    words = command_of(next(cell for cell in ORDER if cell.name == "fedproto-cifar10").config)
    assert words.startswith("protofleet simulate --method fedproto")
    assert "--partition-seed 1234" in words
    assert "--augment crop-flip" in words
    assert "--agents" not in words  # 20 is the default
