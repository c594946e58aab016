"""Pictures of a run: who holds what, accuracy per round, and the embedding with its prototypes.

Each function writes one small PNG; matplotlib is imported when a picture is asked for, and its
global state is not touched.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 100
MAX_DOTS = 2500
INK, FAINT = "#333333", "#dddddd"
# Distinct to most colour-blind eyes and on paper; dashes tell apart what comes after the eighth.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#555555")
DASHES = ("-", "--", ":", "-.")

Array = npt.NDArray[Any]


def partition_picture(
    table: Array, classes: Sequence[str], agents: Sequence[str], path: Path
) -> None:
    """Samples per class and agent: one column an agent, one row a class, the darker the more."""
    n_agents, n_classes = table.shape
    figure, axes = _canvas(min(3.0 + 0.36 * n_agents, 14.0), min(1.6 + 0.3 * n_classes, 12.0))
    most = max(int(table.max()), 1)
    # The scale begins below zero so that a single sample is still seen; none at all stays white.
    image = axes.imshow(
        np.ma.masked_equal(table.T, 0), cmap="Blues", aspect="auto", vmin=-0.15 * most, vmax=most
    )
    if n_agents <= 30 and n_classes <= 30:
        for agent, label in np.argwhere(table > 0):
            count = int(table[agent, label])
            colour = "white" if count > 0.5 * most else INK
            axes.text(
                agent, label, _short(count), ha="center", va="center", fontsize=7, color=colour
            )
    else:
        figure.colorbar(image, ax=axes, label="samples", aspect=40).ax.set_ylim(0, most)
    axes.set_xticks(*_ticks([a.removeprefix("agent-") for a in agents]))
    axes.set_yticks(*_ticks(classes))
    axes.set_xlabel("agent", color=INK)
    axes.set_ylabel("class", color=INK)
    axes.set_xticks(np.arange(n_agents + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(n_classes + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#eeeeee", linewidth=0.6)
    axes.tick_params(which="both", length=0)
    holdings = int((table > 0).sum()) / max(n_agents, 1)
    _title(axes, f"{int(table.sum()):,} samples on {n_agents} agents, {holdings:.1f} classes each")
    _save(figure, path)


def curves(
    series: Mapping[str, Sequence[tuple[int, float]]],
    path: Path,
    title: str,
    ylabel: str,
    levels: Mapping[str, float] | None = None,
    bands: Mapping[str, Sequence[tuple[int, float, float]]] | None = None,
) -> None:
    """A value per round for one or several methods, each line named at its end; a level of a line
    (what somebody else reports for it) is dotted in its colour, its band (round, low, high) is a
    shade of it.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = _canvas(7.0, 4.2)
    ends: list[tuple[float, float, str, str]] = []
    for i, (name, points) in enumerate(series.items()):
        finite = [(r, v) for r, v in points if math.isfinite(v)]
        if not finite:
            continue
        rounds, values = zip(*finite, strict=True)
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(
            rounds,
            values,
            color=colour,
            linestyle=DASHES[i // len(COLOURS) % len(DASHES)],
            linewidth=1.8,
            marker="o" if len(rounds) <= 20 else "",
            markersize=3.5,
        )
        ends.append((values[-1], rounds[-1], name, colour))
        if bands and bands.get(name):
            at, low, high = zip(*bands[name], strict=True)
            axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
        if levels and name in levels:
            axes.axhline(levels[name], color=colour, linestyle=":", linewidth=1.1)
    axes.margins(x=0.02, y=0.08)
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round", color=INK)
    axes.set_ylabel(ylabel, color=INK)
    _title(axes, title)
    _label_ends(axes, ends)
    _save(figure, path)


def against_bytes(
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], path: Path
) -> None:
    """Accuracy over bytes on a logarithmic scale, a panel each; a method keeps its colour, and one
    that sends nothing is a level line; the one that ends highest is named in the picture.
    """
    from matplotlib.ticker import EngFormatter

    names = sorted({name for series in panels.values() for name in series})
    figure, several = _canvases(6.2 * len(panels) + 1.4, 5.2, len(panels))
    for axes, (title, series) in zip(several, panels.items(), strict=True):
        for name, points in series.items():
            i = names.index(name)
            colour, dash = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
            curve = [(x, y) for x, y in points if x > 0]
            if curve:
                axes.plot(
                    *zip(*curve, strict=True),
                    color=colour,
                    linestyle=dash,
                    linewidth=1.6,
                    label=name,
                )
                axes.plot(*curve[-1], "o", color=colour, markersize=4)
            else:
                axes.axhline(points[-1][1], color=colour, linestyle=dash, linewidth=1.0, label=name)
        best = max(series, key=lambda name: series[name][-1][1])
        axes.annotate(
            best, series[best][-1], (6, 4), textcoords="offset points", color=INK, fontsize=9
        )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(EngFormatter(unit="B"))
        axes.grid(color=FAINT, linewidth=0.7)
        axes.set_xlabel("sent and received by a device so far", color=INK)
        axes.set_ylabel("accuracy (mean over devices)", color=INK)
        _title(axes, title)
    handles = {h.get_label(): h for axes in several for h in axes.get_legend_handles_labels()[0]}
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside right center",
        frameon=False,
        fontsize=9,
        handlelength=3.2,
    )
    _save(figure, path)


@dataclass(frozen=True)
class Mark:
    """A figure of a paper and ours, as shares; `slack` is by how much ours may be below."""

    name: str
    paper: float
    slack: float
    ours: float | None
    so_far: float | None = None  # of a run that is not over


def figures(marks: Sequence[Mark], path: Path) -> None:
    """A line a figure, in points from the paper's: its slack as a bar, ours as a dot that is filled
    where it is reached, and as a grey cross while its run is not over; where nothing was run, the
    name alone.
    """
    figure, axes = _canvas(8.4, 1.0 + 0.23 * len(marks))
    # What is far off stands at the edge with its number, else it would make all others one line.
    edge = 12.0
    for row, mark in enumerate(marks):
        low = -100 * mark.slack
        axes.plot([low, 0], [row, row], color=FAINT, linewidth=7, solid_capstyle="butt")
        if mark.ours is None:
            if mark.so_far is not None:
                stands = min(max(100 * (mark.so_far - mark.paper), -edge), edge)
                axes.plot([stands], [row], marker="x", color="#999999", markersize=5, linestyle="")
            continue
        gap = 100 * (mark.ours - mark.paper)
        reached = gap >= low
        axes.plot(
            [min(max(gap, -edge), edge)],
            [row],
            marker="o" if abs(gap) <= edge else ("<" if gap < 0 else ">"),
            color=COLOURS[2] if reached else COLOURS[1],
            fillstyle="full" if reached else "none",
            markersize=6,
            linestyle="",
        )
        if abs(gap) > edge:
            side = (8, "left") if gap < 0 else (-8, "right")
            place = (-edge if gap < 0 else edge, row)
            axes.annotate(
                f"{gap:+.0f}",
                place,
                (side[0], 0),
                textcoords="offset points",
                ha=side[1],
                va="center",
                fontsize=8,
                color=INK,
            )
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlim(-edge - 0.8, edge + 0.8)
    axes.set_ylim(len(marks) - 0.4, -0.6)
    axes.set_yticks(range(len(marks)), [mark.name for mark in marks])
    for label, mark in zip(axes.get_yticklabels(), marks, strict=True):
        label.set_fontsize(8)
        label.set_color(INK if mark.ours is not None else "#aaaaaa")
    axes.grid(axis="x", color=FAINT, linewidth=0.7)
    axes.set_xlabel("points from the paper's figure", color=INK)
    there = sum(mark.ours is not None for mark in marks)
    _title(
        axes, f"{there} of {len(marks)} figures run; grey bars: what the paper's deviation allows"
    )
    _save(figure, path)


@dataclass(frozen=True)
class ClassMap:
    """Samples as dots and prototypes as stars, in the plane already."""

    title: str
    points: Array
    labels: Array
    stars: Array
    star_classes: Array
    classes: Sequence[str]


def class_maps(maps: Sequence[ClassMap], path: Path) -> None:
    """Maps beside each other; a class has one colour in all of them."""
    figure, several = _canvases(4.6 * len(maps), 4.6, len(maps))
    for axes, shown in zip(several, maps, strict=True):
        _scatter(axes, shown)
        axes.set_xticks([])
        axes.set_yticks([])
        _title(axes, shown.title)
    _save(figure, path)


def embedding_map(
    points: Array,
    labels: Array,
    prototypes: Array,
    prototype_classes: Sequence[int],
    classes: Sequence[str],
    path: Path,
) -> None:
    """Samples as dots and prototypes as named stars, in the plane that shows most of their
    spread.
    """
    total = len(points)
    few = slice(
        None, None, max(1, math.ceil(total / MAX_DOTS))
    )  # the eye sees no more in all of them
    points, labels = points[few], labels[few]
    flat, stars, axis_names = _plane(points, prototypes)
    figure, axes = _canvas(6.4, 5.6)
    _scatter(axes, ClassMap("", flat, labels, stars, np.asarray(prototype_classes, int), classes))
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid(color="#eeeeee", linewidth=0.7)
    axes.set_xlabel(axis_names[0], color=INK)
    axes.set_ylabel(axis_names[1], color=INK)
    shown = f"{total:,}" if len(flat) == total else f"{len(flat):,} of {total:,}"
    _title(axes, f"{shown} samples and {len(stars)} prototypes")
    _save(figure, path)


def _scatter(axes: Axes, shown: ClassMap) -> None:
    colours, own = _class_colours(len(shown.classes)), shown.star_classes
    axes.scatter(
        shown.points[:, 0],
        shown.points[:, 1],
        s=8,
        c=colours[shown.labels],
        alpha=0.45,
        linewidths=0,
    )
    axes.scatter(
        shown.stars[:, 0],
        shown.stars[:, 1],
        s=200,
        marker="*",
        c=colours[own],
        edgecolors="black",
        linewidths=0.9,
        zorder=3,
    )
    for label in np.unique(own):  # one name is enough where a class has several prototypes
        place = tuple(shown.stars[own == label][0])
        note = axes.annotate(
            shown.classes[label],
            place,
            (9, 6),
            textcoords="offset points",
            fontsize=10 if len(shown.classes) <= 20 else 6,
            fontweight="bold",
            zorder=4,
        )
        note.set_bbox({"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1.0})
    axes.margins(0.08)


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    figure, (axes,) = _canvases(width, height, 1)
    return figure, axes


def _canvases(width: float, height: float, panels: int) -> tuple[Figure, list[Axes]]:
    # A figure of its own draws with Agg and leaves pyplot's global state alone.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    several = [figure.add_subplot(1, panels, i + 1) for i in range(panels)]
    for axes in several:
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color("#999999")
        axes.tick_params(colors=INK, labelsize=9)
    return figure, several


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=11, color=INK)


def _save(figure: Figure, path: Path) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    # 256 colours are enough for a picture of this kind, in less than half the bytes; rare ones (a
    # star) must stay.
    few = (
        Image.open(drawn)
        .convert("RGB")
        .quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    few.save(path, format="png", optimize=True)


def _ticks(names: Sequence[str]) -> tuple[list[int], list[str]]:
    step = max(1, math.ceil(len(names) / 40))  # more names than forty do not fit on a side
    places = list(range(0, len(names), step))
    return places, [names[i] for i in places]


def _short(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"


def _label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Each line's name right of its end, moved apart where the ends are close."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.055
    ordered = sorted(ends)
    places = np.array([end[0] for end in ordered])
    for _ in range(100):  # neighbours too close give way by half of what is missing each
        push = np.maximum(gap - np.diff(places), 0) / 2
        places[:-1] -= push
        places[1:] += push
    for (value, last, name, colour), place in zip(ordered, places.tolist(), strict=True):
        axes.annotate(
            f"{name} {value:.3g}",
            (last, value),
            (1.01, place),
            textcoords=axes.get_yaxis_transform(),
            fontsize=9,
            color=colour,
            va="center",
            annotation_clip=False,
        )


def _plane(points: Array, prototypes: Array) -> tuple[Array, Array, tuple[str, str]]:
    """Both in two dimensions: as they are, or on the first two principal axes of the points."""
    points, prototypes = np.asarray(points, np.float64), np.asarray(prototypes, np.float64)
    if points.shape[1] < 2:
        points, prototypes = (np.pad(a, ((0, 0), (0, 1))) for a in (points, prototypes))
    if points.shape[1] == 2:
        return points, prototypes, ("dimension 1", "dimension 2")
    base = points if len(points) > 1 else prototypes
    mean = base.mean(axis=0)
    _, spread, rows = np.linalg.svd(base - mean, full_matrices=False)
    axes = rows[:2].T  # [d, 2]
    axes = axes * np.where(
        axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1
    )  # one sign always
    share = 100 * spread[:2] ** 2 / max(float((spread**2).sum()), 1e-12)
    named = (
        f"first principal axis ({share[0]:.0f} %)",
        f"second principal axis ({share[1]:.0f} %)",
    )
    return (points - mean) @ axes, (prototypes - mean) @ axes, named


def _class_colours(n_classes: int) -> Array:
    import matplotlib

    if n_classes <= 10:
        return matplotlib.colormaps["tab10"](np.arange(n_classes))
    return matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, n_classes))
