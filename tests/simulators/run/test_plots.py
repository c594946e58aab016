"""Pictures show what they were given, odd cases too, and leave matplotlib's global state alone.

What is drawn is looked at in the figure, just before it becomes a file.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from simulators.run import plots
from simulators.run.plots import (
    COLOURS,
    Mark,
    against_bytes,
    curves,
    embedding_map,
    figures,
    partition_picture,
)

RNG = np.random.Generator(np.random.PCG64(0))


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch):
    """The axes of the figure that was saved last, which is saved nevertheless."""
    figures = []
    save = plots._save

    def note(figure, path):
        figures.append(figure)
        save(figure, path)

    monkeypatch.setattr(plots, "_save", note)
    return lambda: figures[-1].axes


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize(("agents", "classes"), [(1, 1), (5, 10), (40, 100)])
def test_every_cell_of_the_table_has_its_place(axes, tmp_path: Path, agents: int, classes: int):
    table = RNG.integers(0, 3, (agents, classes)) * 400
    names = [f"class {i}" for i in range(classes)]
    columns = [f"agent-{i:02d}" for i in range(agents)]
    partition_picture(table, names, columns, tmp_path / "new" / "p.png")
    (image,) = axes()[0].images
    shown = image.get_array()
    np.testing.assert_array_equal(shown.filled(0), table.T)
    assert shown.mask.all() == (not table.any())  # none at all is white, not a pale blue
    counts = [str(n) if n < 1000 else "0.8k" for n in table[table > 0]]
    assert sorted(texts(axes()[0])) == (sorted(counts) if agents <= 30 else [])


@pytest.mark.parametrize(
    "series",
    [
        {},
        {"local": []},
        {"fedproto": [(3, 0.5)]},
        {"a": [(1, 0.1), (2, float("nan")), (3, 0.3)], "b": [(1, float("nan"))]},
        {f"m{i}": [(r, 0.7) for r in range(1, 30)] for i in range(10)},
    ],
)
def test_every_curve_with_a_value_is_drawn_and_named_by_its_last(axes, tmp_path: Path, series):
    curves(series, tmp_path / "c.png", "a run", "accuracy")
    finite = {n: [p for p in points if math.isfinite(p[1])] for n, points in series.items()}
    finite = {name: points for name, points in finite.items() if points}
    lines = axes()[0].lines
    assert [list(zip(*line.get_data(), strict=True)) for line in lines] == list(finite.values())
    assert sorted(texts(axes()[0])) == sorted(f"{n} {p[-1][1]:.3g}" for n, p in finite.items())
    looks = {(line.get_color(), line.get_linestyle()) for line in lines}
    assert len(looks) == len(lines)


def test_names_at_one_height_do_not_lie_on_each_other(axes, tmp_path: Path):
    curves({f"m{i}": [(1, 0.7), (2, 0.7)] for i in range(6)}, tmp_path / "c.png", "", "")
    heights = sorted(text.xyann[1] for text in axes()[0].texts)
    assert min(np.diff(heights)) > 0


def test_a_method_that_sends_nothing_is_a_level_line_and_keeps_its_colour(axes, tmp_path: Path):
    series = {"a": [(10.0, 0.1), (20.0, 0.4)], "silent": [(0.0, 0.2), (0.0, 0.3)]}
    against_bytes({"one": series, "two": {"silent": series["silent"]}}, tmp_path / "b.png")
    one, two = axes()
    level = one.lines[-1]
    assert set(level.get_ydata()) == {0.3}
    assert two.lines[-1].get_color() == level.get_color() == COLOURS[1]
    assert texts(one) == ["a"]  # the one that ends highest


def test_a_figure_is_a_dot_as_far_from_the_paper_s_as_it_is(axes, tmp_path: Path):
    marks = [
        Mark("good", 0.9, 0.01, 0.93),
        Mark("near", 0.9, 0.01, 0.895),
        Mark("low", 0.9, 0.01, 0.85),
        Mark("far", 0.9, 0.01, 0.5),
        Mark("absent", 0.9, 0.01, None),
    ]
    figures(marks, tmp_path / "figures.png")
    (only,) = axes()
    dots = {
        round(float(line.get_ydata()[0])): line
        for line in only.lines
        if line.get_marker() != "None"
    }
    gaps = {row: float(dot.get_xdata()[0]) for row, dot in dots.items()}
    assert gaps == pytest.approx({0: 3.0, 1: -0.5, 2: -5.0, 3: -12.0})
    # Within what the paper's deviation allows is filled and green; below is hollow and red.
    assert [dots[row].get_fillstyle() for row in range(4)] == ["full", "full", "none", "none"]
    assert dots[0].get_color() == dots[1].get_color() != dots[2].get_color()
    assert texts(only) == ["-40"]
    named = {label.get_text(): label.get_color() for label in only.get_yticklabels()}
    assert list(named) == [mark.name for mark in marks]
    assert named["absent"] != named["good"]
    assert "4 of 5 figures run" in only.get_title(loc="left")


@pytest.mark.parametrize("dim", [1, 2, 64])
@pytest.mark.parametrize(("samples", "classes"), [(1, 2), (6000, 12)])
def test_samples_are_thinned_out_and_prototypes_are_not(
    axes, tmp_path: Path, dim: int, samples: int, classes: int
):
    points, labels = RNG.normal(size=(samples, dim)), RNG.integers(0, classes, samples)
    prototypes, which = RNG.normal(size=(2 * classes, dim)), [*range(classes), *range(classes)]
    names = [f"class {i}" for i in range(classes)]
    embedding_map(points, labels, prototypes, which, names, tmp_path / "m.png")
    dots, stars = axes()[0].collections
    assert len(dots.get_offsets()) == (1 if samples == 1 else 2000)
    assert len(stars.get_offsets()) == 2 * classes
    assert sorted(texts(axes()[0])) == sorted(names)  # once, though each has two prototypes
    if dim == 2:
        np.testing.assert_allclose(stars.get_offsets(), prototypes)


def test_a_file_is_small_and_loses_no_rare_colour(tmp_path: Path):
    points = RNG.normal(size=(2500, 2))
    embedding_map(points, np.zeros(2500, int), points[:1], [0], ["one"], tmp_path / "m.png")
    with Image.open(tmp_path / "m.png") as image:
        assert image.format == "PNG"
        colours = {colour for _, colour in image.convert("RGB").getcolors(10**6)}
    assert min(sum(colour) for colour in colours) < 30  # the black edge of the one star
    assert (tmp_path / "m.png").stat().st_size < 120_000


def test_pyplot_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    curves({"local": [(1, 0.5), (2, 0.6)]}, tmp_path / "c.png", "a run", "accuracy")
    with Image.open(tmp_path / "c.png") as image:
        assert image.format == "PNG"
