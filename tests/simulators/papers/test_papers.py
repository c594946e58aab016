"""The papers' cells: every one can be run, and asks for what its paper claims."""

import pytest

from protofleet import registry
from protofleet.settings.fields import from_plain, parse_pairs, to_plain
from simulators.papers import papers
from simulators.papers.cell import MARGINS
from simulators.papers.readings import CELLS
from simulators.run.config import Run


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_a_cell_is_a_run_that_the_laboratory_accepts(cell):
    run = cell.config.run
    assert from_plain(Run, to_plain(run)) == run
    parse_pairs(registry.load(run.method).hyper, cell.config.settings)
    assert cell.evaluator == MARGINS or cell.evaluator.startswith(("prototype", "head", "mixture"))


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_what_is_asked_of_a_cell_can_be_answered(cell):
    for aim in cell.aims:
        if aim.kind == "figure":
            assert cell.paper is not None
            assert 0 < cell.paper < 1
        if aim.kind == "above":
            other = CELLS[aim.other]
            assert other.config.run.dataset == cell.config.run.dataset
            assert other.seeds(3)[0] == cell.seeds(3)[0]  # there are seeds that both have


def test_a_pair_that_is_compared_runs_on_the_same_devices():
    for cell in CELLS.values():
        for aim in (aim for aim in cell.aims if aim.kind == "above"):
            mine, other = cell.config, CELLS[aim.other].config
            assert mine.partition == other.partition
            assert (mine.run.agents, mine.run.partition) == (other.run.agents, other.run.partition)


def test_the_ablation_differs_in_its_terms_alone():
    whole = papers.ABLATION[-1].config
    assert {(c.config.run, c.config.training) for c in papers.ABLATION} == {
        (whole.run, whole.training)
    }
    assert len({c.config.settings for c in papers.ABLATION}) == len(papers.ABLATION)
