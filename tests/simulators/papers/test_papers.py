"""The papers' cells: every one can be run, and asks for what its paper claims."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from edge_agent.data.dataset import DataSet, input_of
from protofleet import registry
from protofleet.settings.fields import from_plain, parse_pairs, to_plain
from simulators.papers import papers
from simulators.papers.cell import MARGINS, Places, recorded
from simulators.papers.readings import every_cell
from simulators.run import partitions
from simulators.run.config import Run

ROOT = Path(__file__).parents[3]
CELLS = every_cell()


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_a_cell_is_a_run_that_the_laboratory_accepts(cell):
    run = cell.config.run
    assert from_plain(Run, to_plain(run)) == run
    hyper = parse_pairs(registry.load(run.method).hyper, cell.config.settings)
    assert {pair.partition("=")[0] for pair in cell.config.settings} <= {
        field.name for field in fields(hyper)
    }
    assert cell.evaluator == MARGINS or cell.evaluator.startswith(("prototype", "head", "mixture"))


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_what_is_asked_of_a_cell_can_be_answered(cell):
    for aim in cell.aims:
        if aim.kind == "figure":
            assert cell.paper is not None
            assert 0 < cell.paper < 1
            assert cell.where
        if aim.other:
            other = CELLS[aim.other]
            assert other.config.run.dataset == cell.config.run.dataset
            assert other.due()[0] == cell.due()[0]  # there are seeds that both have
    if cell.paper is not None and not cell.reading_of:
        assert "figure" in {aim.kind for aim in cell.aims}


def test_a_pair_that_is_compared_runs_on_the_same_devices_with_the_same_network():
    for cell in CELLS.values():
        for aim in (aim for aim in cell.aims if aim.other):
            mine, other = cell.config, CELLS[aim.other].config
            assert mine.partition == other.partition
            alike = ["dataset", "agents", "partition", "partition_seed", "backbone"]
            # MP-FedCL's and GFPL's papers give their baselines more rounds.
            if not cell.name.startswith(("mpfedcl", "gfpl")):
                alike.append("rounds")
            for name in alike:
                assert getattr(mine.run, name) == getattr(other.run, name), cell.name


def test_the_ablation_differs_in_its_terms_alone():
    whole = papers.ABLATION[-1].config
    assert {(c.config.run, c.config.training) for c in papers.ABLATION} == {
        (whole.run, whole.training)
    }
    assert len({c.config.settings for c in papers.ABLATION}) == len(papers.ABLATION)


def test_cells_that_share_a_run_have_its_very_settings():
    for cell in CELLS.values():
        if cell.runs:
            assert cell.config == CELLS[cell.runs].config
            # A reading may ask for more of them.
            assert cell.reading_of or cell.seeds <= CELLS[cell.runs].seeds


def test_the_papers_counts_of_floats_are_those_of_their_devices():
    """The devices that FedProto's code draws under its seed hold 59 pairs of device and class."""
    y = np.concatenate([np.repeat(np.arange(10), 2200), np.repeat(np.arange(10), 300)])
    x, names = np.zeros((len(y), 1), np.float32), tuple(map(str, range(10)))
    data = DataSet("ten", names, input_of("ten", x), x, y, 22_000)
    fedmps, fedproto, _ = papers.FEDMPS_CIFAR
    run, options = fedmps.config.run, fedmps.config.partition
    dealt = partitions.make(run.partition, data, run.agents, run.partition_seed, options)
    pairs = sum(len(np.unique(y[shard.train])) for shard in dealt.shards)
    assert pairs == 59
    assert fedproto.paper_floats == pairs * 120 == 7_080
    # Both levels up, and the soft labels of ten classes down, which the paper counts once.
    assert fedmps.paper_floats == pairs * (400 + 120) + 10 * 10 == 30_780
    # MP-FedCL: K = 2 means of 256 floats for each of ten classes, padded, of five clients.
    pool = papers.MPFEDCL[0]
    assert pool.paper_floats == pool.config.run.agents * 2 * 10 * 256 == 5 * 5_120


def test_every_run_on_record_counts_the_floats_that_its_paper_does():
    there = [
        (cell, record)
        for cell in CELLS.values()
        if cell.paper_floats and not cell.runs
        for seed in cell.due()
        if (record := recorded(cell, seed, Places(ROOT, ROOT / "docs" / "results"))) is not None
        and not record.failure
    ]
    assert there
    for cell, record in there:
        assert record.document["exchange"]["paper_floats"] == cell.paper_floats, cell.name


def test_the_papers_own_length_and_devices():
    """Against the papers' text, and for FedMPS its code's README."""
    facts = {
        "fedmps-cifar10": (500, "few-shot", 8, 0.01, 0.5),
        "fedmps-fashion": (800, "few-shot", 8, 0.01, 0.5),
        "fedic-fashion-2": (800, "pathological", 10, 0.005, 0.0),
        "fedic-cifar10-dir": (800, "dirichlet", 10, 0.005, 0.0),
        "protonorm-cifar10": (300, "dirichlet", 32, 0.01, 0.0),
        "gfpl-mnist-3": (80, "few-shot", 4, 0.01, 0.5),
        "mpfedcl-mnist": (60, "dirichlet", 32, 0.01, 0.5),
        "mpfedcl-fedavg": (110, "dirichlet", 32, 0.01, 0.5),
    }
    for name, (rounds, partition, batch, lr, momentum) in facts.items():
        config = CELLS[name].config
        training = config.training
        assert (config.run.rounds, config.run.partition) == (rounds, partition)
        assert (training.batch_size, training.lr, training.momentum) == (batch, lr, momentum)
        if not name.startswith("mpfedcl"):
            assert config.run.agents == 20
            assert config.partition.limit is None


def test_fedmps_code_s_choices_for_its_baselines():
    """Its network normalises for every method, and its FedAvg takes the plain mean."""
    _, proto, avg = papers.FEDMPS_CIFAR
    assert proto.config.run.unit_embedding
    assert avg.config.run.unit_embedding
    assert avg.config.settings == ("weighted=no",)
    assert replace(proto.config.run, method="fedmps", unit_embedding=False) == (
        papers.FEDMPS_CIFAR[0].config.run
    )
