"""Curves of `bench taps`: accuracy over taps, a line a choice, with their spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulators.run.plots import COLOURS, INK

WORDS = {
    "queue": "as the page asks",
    "random": "at random",
    "doubt": "the least sure first",
    "heaps": "heaps at once",
}


def taps_picture(answer: Mapping[str, Any], path: Path) -> None:
    """One PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.4), dpi=100, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    for colour, (name, rows) in zip(COLOURS, answer.get("choices", {}).items(), strict=False):
        x = [row["taps"] for row in rows]
        y = [100 * row["accuracy"] for row in rows]
        low, high = (
            [100 * (row["accuracy"] + sign * row["spread"]) for row in rows] for sign in (-1, 1)
        )
        axes.plot(x, y, color=colour, label=WORDS[name], linewidth=2)
        axes.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
    points = answer.get("live", {}).get("points", ())
    if points:
        x, y = [p["taps"] for p in points], [100 * p["accuracy"] for p in points]
        axes.plot(x, y, "o", color=INK, markersize=4, label="live, on four pages")
    axes.set_xlabel("taps in all", color=INK)
    axes.set_ylabel("accuracy on photographs held back, %", color=INK)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.legend(frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
