"""The page of results, made of two small cells and a reading."""

from dataclasses import replace

import pytest

from simulators.papers.cell import MARGINS, Aim, Cell, changed, run_cell
from simulators.papers.page import page
from simulators.papers.readings import Section


@pytest.fixture(scope="module")
def sections(small_lab, tmp_path_factory):
    config = small_lab(rounds=2)
    low = Cell(
        "low",
        "A low figure",
        config,
        "prototype",
        0.1,
        0.01,
        paper_floats=123,
        note="digits",
        cut="two rounds",
    )
    high = Cell(
        "high",
        "A high figure",
        config,
        "head",
        0.999,
        aims=(Aim("figure"), Aim("above", 0.5, "low")),
        pick="best",
    )
    reading = Cell(
        "low-lam", "another λ", changed(config, ("lam=3",)), "prototype", aims=(), reading_of="low"
    )
    even = Cell("even", "Margins", config, MARGINS, aims=(Aim("at least", 0.0), Aim("below", 0.0)))
    absent = Cell("absent", "Not run", config, "prototype")
    out = tmp_path_factory.mktemp("runs")
    for cell in (low, high, reading, even):
        run_cell(cell, 2, out, 1)
    return out, [
        Section("first", "First things", (low, high), (reading,), "It is so."),
        Section("last", "Last things", (even, absent), picture="maps"),
    ]


def test_the_page_says_what_was_asked_and_what_it_came_to(sections):
    out, several = sections
    text = page(several, 2, out, None)
    low = next(line for line in text.splitlines() if line.startswith("| A low figure (cut)"))
    assert "| 10.00 ± 1.00 |" in low
    assert "the paper's: **reached**" in low
    assert "| 2 × 2 |" in low
    high = next(line for line in text.splitlines() if line.startswith("| A high figure"))
    assert "the paper's: **not reached**" in high
    assert "50.00 over low" in high
    assert "(paper 123)" in text
    assert "cut: two rounds" in text
    assert "It is so." in text
    assert "at least 0: **reached**; below 0: **not reached**" in text


def test_readings_stand_beside_their_cell_and_what_is_not_there_is_named(sections):
    out, several = sections
    text = page(several, 2, out, None)
    reading = next(line for line in text.splitlines() if line.startswith("| another λ"))
    assert "(low)" in reading
    assert "--set lam=3" in text
    assert "Cells with runs still to be made: absent." in text
    assert "Not there yet" not in page(several[:1], 2, out, None)
    assert "still to be made: low, high, low-lam." in page(several[:1], 3, out, None)


def test_pictures_are_left_beside_the_page(sections, tmp_path):
    out, several = sections
    text = page(several, 2, out, tmp_path)
    for name in ("first", "even"):
        assert f"(images/results/{name}.png)" in text
        assert (tmp_path / "images" / "results" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (
        "images"
        not in page([replace(several[0], picture="none")], 2, out, tmp_path).split("## First")[1]
    )
