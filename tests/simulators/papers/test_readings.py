"""The page's sections: every cell once, and every comparison with one that is run."""

import pytest

from simulators.papers.cell import MARGINS
from simulators.papers.readings import CELLS, ORDER, SECTIONS


def test_every_cell_is_on_the_page_once_and_every_comparison_is_with_one_that_is_run():
    shown = [cell.name for section in SECTIONS for cell in (*section.cells, *section.readings)]
    assert sorted(shown) == sorted(cell.name for cell in ORDER)
    assert len(set(shown)) == len(shown)
    compared = {aim.other for cell in ORDER for aim in cell.aims if aim.other}
    assert compared | {cell.reading_of for cell in ORDER if cell.reading_of} <= set(shown)


READINGS = [cell for section in SECTIONS for cell in section.readings]


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: reading.name)
def test_a_reading_answers_the_same_figure_by_other_settings(reading):
    base = CELLS[reading.reading_of]
    assert reading.name.startswith(f"{base.name}-")
    assert (reading.evaluator, reading.paper, reading.pick) == (
        base.evaluator,
        base.paper,
        base.pick,
    )
    assert reading.config != base.config
    assert not reading.aims  # it promises nothing, so it can keep nothing
    assert reading.config.run.dataset == base.config.run.dataset


def test_curves_are_drawn_of_accuracies_and_maps_of_margins():
    for section in SECTIONS:
        if section.picture == "curves":
            assert any(cell.evaluator != MARGINS for cell in section.cells)
        else:
            assert any(cell.evaluator == MARGINS for cell in section.cells)


def test_what_is_cheap_comes_first_and_readings_last():
    assert ORDER[-len(READINGS) :] == tuple(READINGS)
