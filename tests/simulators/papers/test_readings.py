"""The page's sections: every cell once, and every comparison with one that is run."""

import json

import numpy as np
import pytest
import torch

from edge_agent.networks import backbones
from protofleet.contract import Input
from simulators.papers.cell import MARGINS, changed, command_of
from simulators.papers.readings import SECTIONS, every_cell
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare

CELLS = every_cell()
READINGS = [cell for section in SECTIONS for cell in section.readings]


def test_every_cell_is_on_the_page_once_and_every_comparison_is_with_one_that_is_run():
    shown = [cell.name for section in SECTIONS for cell in (*section.cells, *section.readings)]
    assert len(set(shown)) == len(shown)
    compared = {aim.other for cell in CELLS.values() for aim in cell.aims if aim.other}
    based = {cell.reading_of for cell in CELLS.values() if cell.reading_of}
    assert compared | based <= set(shown)
    assert {cell.runs for cell in CELLS.values() if cell.runs} <= set(shown)
    json.dumps([command_of(cell.config) for cell in CELLS.values()])


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: reading.name)
def test_a_reading_answers_the_same_figure_by_other_settings_or_more_of_the_same_runs(reading):
    base = CELLS[reading.reading_of]
    assert reading.name.startswith(f"{base.name}-")
    assert (reading.evaluator, reading.paper) == (base.evaluator, base.paper)
    if reading.runs:
        assert (reading.home, reading.config) == (base.home, base.config)
        # One thing differs, so that it is known what the difference comes of.
        assert (reading.pick != base.pick) != (reading.seeds > base.seeds)
        assert reading.seeds >= base.seeds
    else:
        assert reading.config != base.config
        assert reading.pick == base.pick
    assert not reading.aims  # it promises nothing, so it can keep nothing
    assert reading.config.run.dataset == base.config.run.dataset


def test_curves_are_drawn_of_accuracies_and_maps_of_margins():
    for section in SECTIONS:
        if section.picture == "curves":
            assert any(cell.evaluator != MARGINS for cell in section.cells)
        if section.picture == "maps":
            assert any(cell.evaluator == MARGINS for cell in section.cells)


def test_the_main_tables_have_33_figures():
    main = [cell for section in SECTIONS if section.main for cell in section.cells]
    assert sum(cell.paper is not None for cell in main) == 33


def test_gfpl_s_count_for_fedproto_is_more_than_its_clients_can_send():
    (about,) = (section.about for section in SECTIONS if section.name == "gfpl")
    assert 20 * 10 * 128 < 41_000
    assert f"{20 * 10 * 128:,}" in about
    assert f"{80 * 512:,}" in about
    assert round(80 * 512, -3) == 41_000


@pytest.fixture(scope="module")
def about_fedic():
    (about,) = (section.about for section in SECTIONS if section.name == "fedic")
    return about


def test_the_four_layer_cnn_is_what_fedic_s_traffic_means(about_fedic):
    """Recomputed from shapes: 3×3 convolutions and a line, as PyTorch counts them."""
    stages = backbones.build("cnn4", Input("image", (32, 32, 3)))
    head = torch.nn.Linear(stages.dim, 100)
    weights = sum(p.numel() for m in (stages.low, stages.high, head) for p in m.parameters())

    def megabytes(floats_a_client):
        return 20 * floats_a_client * 4 / 1e6

    both_ways = megabytes(2 * weights)
    fedproto = both_ways + megabytes((100 + 10) * stages.dim)
    fedic = fedproto + megabytes(100 * stages.dim)
    assert f"{weights:,} weights" in about_fedic
    assert f"{both_ways:.2f} MB" in about_fedic
    assert f"{fedproto:.1f} MB" in about_fedic
    assert abs(fedproto - 151.52) < 0.01 * 151.52
    assert f"{fedic:.2f} MB, 0.2 % under" in about_fedic
    assert 0.002 < 1 - fedic / 156.92 < 0.0025


def test_our_own_traffic_is_what_a_round_counts(about_fedic, tmp_path):
    """A round of devices that hold ten classes of a hundred each, on the four-layer CNN."""
    y = np.repeat(np.arange(100), 4)
    x = np.random.default_rng(0).integers(0, 256, (400, 32, 32, 3), np.uint8)
    np.savez(tmp_path / "hundred.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    config = changed(
        CELLS["fedic-cifar10-2"].config,
        dataset=str(tmp_path / "hundred.npz"),
        agents=10,
        classes_per_agent=10,
        shares="equal",
        rounds=1,
    )
    row = run(prepare(config), LabOptions(), lambda row: None).rows[0]
    a_client = (row.up_floats + row.down_floats) / 10
    assert f"alone: {20 * a_client * 4 / 1e6:.2f} MB" in about_fedic
