"""Pictures are drawn from what runs give, odd cases too, stay small, and leave matplotlib's global
state alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from simulators.run.plots import curves, embedding_map, partition_picture

RNG = np.random.Generator(np.random.PCG64(0))


def check(path: Path) -> None:
    assert 1000 < path.stat().st_size < 120_000
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert len(image.convert("RGB").getcolors(10**7) or []) > 3  # something is drawn


@pytest.mark.parametrize(("agents", "classes"), [(1, 1), (5, 10), (40, 100)])
def test_partition_picture(tmp_path: Path, agents: int, classes: int) -> None:
    table = RNG.integers(0, 3, (agents, classes)) * 400
    names = [f"class {i}" for i in range(classes)]
    partition_picture(
        table, names, [f"agent-{i:02d}" for i in range(agents)], tmp_path / "new" / "p.png"
    )
    check(tmp_path / "new" / "p.png")


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
def test_curves(tmp_path: Path, series: dict[str, list[tuple[int, float]]]) -> None:
    curves(series, tmp_path / "c.png", "a run", "accuracy")
    check(tmp_path / "c.png")


@pytest.mark.parametrize("dim", [1, 2, 64])
@pytest.mark.parametrize(("samples", "classes"), [(1, 2), (6000, 12)])
def test_embedding_map(tmp_path: Path, dim: int, samples: int, classes: int) -> None:
    points, labels = RNG.normal(size=(samples, dim)), RNG.integers(0, classes, samples)
    prototypes, which = RNG.normal(size=(2 * classes, dim)), [*range(classes), *range(classes)]
    names = [f"class {i}" for i in range(classes)]
    embedding_map(points, labels, prototypes, which, names, tmp_path / "m.png")
    check(tmp_path / "m.png")


def test_pyplot_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    curves({"local": [(1, 0.5), (2, 0.6)]}, tmp_path / "c.png", "a run", "accuracy")
    check(tmp_path / "c.png")
