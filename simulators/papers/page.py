"""The page of results, made of the runs that are there: a section a protocol, and its pictures
beside the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from simulators.papers import cell as cells
from simulators.papers.cell import MARGINS, Aim, Cell, CellRun, command_of
from simulators.papers.readings import Section
from simulators.run import plots
from simulators.run.progress import size

HEAD = """# Results

The papers' figures beside ours, on the real data sets, made by

    protofleet bench papers --write docs/results.md

which looks for the data in `PROTOFLEET_DATA`, takes up where it was stopped, and writes this page \
(`--only NAME` runs
one cell, `--page-only` none). Accuracies are means over devices, in the last round and in the \
best one, then mean ±
standard deviation over the seeds (0, 1, …: other weights, orders and, but for few-shot, \
partitions). *Gap* is ours
less the paper's, in the round that the paper reports (*which*). *Reached* means: not below the \
paper by more than the
paper's own standard deviation; other aims stand with what ours came to. Floats are a round's, of \
the whole fleet;
*paper counts* is the same round counted as the method's paper counts it (`paper_floats` in \
`result.json`), with the
paper's own number where it gives one for these devices.

Seconds are wall time of a run (of its last stretch, where it was stopped) on a machine that had \
other work; for speed
see [speed.md](speed.md).

Nothing was tuned on the test split. The rows of a first table are the papers' own settings; a \
*reading* is a run of
its own that settles otherwise what a paper leaves open, and moves no row. CIFAR-10's images were \
JPEG-compressed
here.
"""
TABLE = """| cell | paper | ours, last | ours, best | which | gap | asked | seeds × rounds | \
seconds a run |
|---|---|---|---|---|---|---|---|---|"""
TRAFFIC = """| cell | floats up | floats down | bytes up | bytes down | paper counts |
|---|---|---|---|---|---|"""
READINGS = """| reading | ours, last | ours, best | beside the cell (same seeds, last) | seeds × \
rounds |
|---|---|---|---|---|"""


@dataclass(frozen=True)
class AllCells:
    """All cells and their finished runs, by name."""

    cells: Mapping[str, Cell]
    runs: Mapping[str, Sequence[CellRun]]


def page(sections: Sequence[Section], seed_count: int, out: Path, beside: Path | None) -> str:
    """The page as Markdown; with a folder for it, its pictures go under `images/results/` there."""
    every = {
        cell.name: cell for section in sections for cell in (*section.cells, *section.readings)
    }
    results = AllCells(
        every, {name: cells.finished_runs(cell, seed_count, out) for name, cell in every.items()}
    )
    lines = [HEAD]
    for section in sections:
        lines += _section(section, results, out, beside)
    missing = [
        name
        for name, cell in every.items()
        if len(results.runs[name]) < len(cell.seeds(seed_count))
    ]
    if missing:
        lines += [
            "## Not there yet",
            "",
            "Cells with runs still to be made: " + ", ".join(missing) + ".",
            "",
        ]
    return "\n".join(lines)


def _section(section: Section, results: AllCells, out: Path, beside: Path | None) -> list[str]:
    there = [cell for cell in section.cells if results.runs[cell.name]]
    if not there:
        return []
    lines = [f"## {section.title}", "", TABLE, *(_line(cell, results) for cell in there), ""]
    lines += [TRAFFIC, *(_traffic(cell, results.runs[cell.name]) for cell in there), ""]
    picture = _picture(section, there, results, out, beside)
    if picture:
        lines += [*picture, ""]
    if section.words:
        lines += [section.words, ""]
    tried = [cell for cell in section.readings if results.runs[cell.name]]
    if tried:
        lines += [
            "### Readings tried",
            "",
            READINGS,
            *(_reading(cell, results) for cell in tried),
            "",
        ]
    lines += ["### Settings", ""]
    for cell in [*there, *tried]:
        lines += _settings(cell, results.runs[cell.name])
    return lines


def _line(cell: Cell, results: AllCells) -> str:
    mine = results.runs[cell.name]
    paper = "–" if cell.paper is None else _number(cell, cell.paper)
    paper += f" ± {_number(cell, cell.paper_std)}" if cell.paper_std else ""
    gap = "–" if cell.paper is None else f"{100 * (_mean(cell, mine) - cell.paper):+.2f}"
    aims = "; ".join(_verdict(cell, aim, results) for aim in cell.aims) or "–"
    last = _spread(cell, mine, "last")
    best = "–" if cell.evaluator == MARGINS else _spread(cell, mine, "best")
    title = cell.title + (" (cut)" if cell.cut else "")
    seconds = fmean(run.document["seconds"] for run in mine)
    rounds = f"{len(mine)} × {len(mine[0].document['rounds'])}"
    return _row(title, paper, last, best, cell.pick, gap, aims, rounds, f"{seconds:.0f}")


def _verdict(cell: Cell, aim: Aim, results: AllCells) -> str:
    """What was asked, what it came to, and yes or no."""
    ours = _mean(cell, results.runs[cell.name])
    if aim.kind == "figure":
        assert cell.paper is not None
        return f"the paper's: {_yes(ours >= cell.paper - cell.paper_std)}"
    if aim.kind == "above":
        other = results.cells[aim.other]
        theirs = {run.seed: run.value(other, other.pick) for run in results.runs[aim.other]}
        # Only seeds that both have, each with its own: they share devices.
        pairs = [
            run.value(cell, cell.pick) - theirs[run.seed]
            for run in results.runs[cell.name]
            if run.seed in theirs
        ]
        if not pairs:
            return f"≥ {100 * aim.amount:.2f} over {aim.other}: not there yet"
        lead = fmean(pairs)
        # "More than" has no amount in some papers; then any lead will do.
        good = lead >= aim.amount if aim.amount else lead > 0
        return f"{100 * aim.amount:.2f} over {aim.other} ({100 * lead:+.2f}): {_yes(good)}"
    good = ours >= aim.amount if aim.kind == "at least" else ours < aim.amount
    return f"{aim.kind} {aim.amount:g}: {_yes(good)}"


def _yes(good: bool) -> str:
    return "**reached**" if good else "**not reached**"


def _traffic(cell: Cell, mine: Sequence[CellRun]) -> str:
    """A round of exchange, the last that there was."""
    rounds = [row for row in mine[0].document["rounds"] if row["up_bytes"]] or mine[0].document[
        "rounds"
    ]
    # Methods that exchange only now and then are counted by a round in which they do.
    row = rounds[-1]
    counted = f"{row['paper_floats']:,}" + (
        f" (paper {cell.paper_floats:,})" if cell.paper_floats else ""
    )
    often = f" (in {len(rounds)} rounds)" if len(rounds) < len(mine[0].document["rounds"]) else ""
    numbers = (
        f"{row['up_floats']:,}",
        f"{row['down_floats']:,}",
        size(row["up_bytes"]),
        size(row["down_bytes"]),
    )
    return _row(cell.title + often, *numbers, counted)


def _reading(cell: Cell, results: AllCells) -> str:
    mine, base = results.runs[cell.name], results.cells[cell.reading_of]
    beside = {run.seed: run.value(base, "last") for run in results.runs[base.name]}
    pairs = [run.value(cell, "last") - beside[run.seed] for run in mine if run.seed in beside]
    change = _points(cell, fmean(pairs)) if pairs else "–"
    best = "–" if cell.evaluator == MARGINS else _spread(cell, mine, "best")
    rounds = f"{len(mine)} × {len(mine[0].document['rounds'])}"
    return _row(cell.title, _spread(cell, mine, "last"), best, f"{change} ({base.name})", rounds)


def _settings(cell: Cell, mine: Sequence[CellRun]) -> list[str]:
    document = mine[0].document
    client_classes = sum(
        len(agent["classes"]) for agent in document["partition"]["agents"].values()
    )
    which = "margins" if cell.evaluator == MARGINS else f"`{cell.evaluator}`"
    parts = [
        f"**{cell.title}** (`{cell.name}`): {which}",
        cell.note,
        f"cut: {cell.cut}" if cell.cut else "",
    ]
    parts.append(
        f"{client_classes} client-classes"
        + ("" if cell.config.run.partition_seed else " under seed 0")
    )
    words = "; ".join(part for part in parts if part) + "."
    if len(mine) > 1:
        words += (
            " By seed: "
            + ", ".join(f"{run.seed}: {_number(cell, run.value(cell, 'last'))}" for run in mine)
            + "."
        )
    others = _others(cell, document)
    return [words + others, "", f"    {command_of(cell.config)} --seed SEED", ""]


def _others(cell: Cell, document: Mapping[str, Any]) -> str:
    figures = [
        f"{name} {100 * value:.2f}"
        for name, value in document["final"]["each"].items()
        if name != cell.evaluator
    ]
    return f" Other evaluators, seed 0: {', '.join(figures)}." if figures else ""


def _picture(
    section: Section, there: Sequence[Cell], results: AllCells, out: Path, beside: Path | None
) -> list[str]:
    if beside is None or section.picture == "none":
        return []
    folder = Path("images/results")
    if section.picture == "curves":
        series = {
            cell.name: _curve(cell, results.runs[cell.name])
            for cell in there
            if cell.evaluator != MARGINS
        }
        plots.curves(
            series,
            beside / folder / f"{section.name}.png",
            section.title,
            "accuracy (mean over devices)",
        )
        return [f"![accuracy per round]({folder / section.name}.png)"]
    drawn = []
    for cell in there:
        source, target = out / cell.name / "0" / "embeddings.png", folder / f"{cell.name}.png"
        if source.exists():
            (beside / target).parent.mkdir(parents=True, exist_ok=True)
            (beside / target).write_bytes(source.read_bytes())
            drawn.append(f"![{cell.title}: test samples and prototypes]({target})")
    return drawn


def _curve(cell: Cell, mine: Sequence[CellRun]) -> list[tuple[int, float]]:
    """Mean over seeds, round by round."""
    rounds = zip(*(run.document["rounds"] for run in mine), strict=True)
    return [
        (rows[0]["round"], fmean(row["accuracy"][cell.evaluator] for row in rows))
        for rows in rounds
        if all(cell.evaluator in row["accuracy"] for row in rows)
    ]


def _mean(cell: Cell, mine: Sequence[CellRun]) -> float:
    return fmean(run.value(cell, cell.pick) for run in mine)


def _spread(cell: Cell, mine: Sequence[CellRun], pick: Any) -> str:
    values = [run.value(cell, pick) for run in mine]
    mean = _number(cell, fmean(values))
    return (
        mean if len(values) < 2 else f"{mean} ± {_number(cell, stdev(values))}"
    )  # one run has no spread


def _number(cell: Cell, value: float) -> str:
    return f"{value:.3f}" if cell.evaluator == MARGINS else f"{100 * value:.2f}"


def _points(cell: Cell, value: float) -> str:
    return f"{value:+.3f}" if cell.evaluator == MARGINS else f"{100 * value:+.2f}"


def _row(*columns: str) -> str:
    return "| " + " | ".join(columns) + " |"
