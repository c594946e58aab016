"""The page of results: first a picture and a table of all figures, then a section a protocol with
what lies behind them. Nothing is concluded beside a cell that was not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from simulators.papers import leaks, own_means
from simulators.papers.cell import (
    MARGINS,
    Aim,
    Cell,
    Places,
    at_seed,
    command_of,
    finished,
    kept,
    standing,
)
from simulators.papers.plan import Times, duration, times
from simulators.papers.readings import Section
from simulators.papers.records import Pick, RunRecord
from simulators.papers.words import digest_of, words_on
from simulators.run import maps, plots
from simulators.run.maps import EmbeddedSamples
from simulators.run.plots import ClassMap, Mark
from simulators.run.progress import size

HEAD = """# Results

<!-- not run below: hours; every figure is beside its command -->

The papers' figures beside ours, on the real data sets. CIFAR-10 is the lossless one; figures of an
earlier page were made with a JPEG copy of it and with shorter runs, and are of another data set.

    protofleet bench papers --write docs/results.md

runs what is missing, one cell after the other in the order of `protofleet bench papers --list`, and
writes this page. It needs the data in `PROTOFLEET_DATA`, may be stopped at any time and goes on
where it was. What is finished is kept in `docs/results/`, a small file a seed, so that another
machine does not run it again.
"""
READ = """## How to read it

- Ours is the mean over the seeds that were run (0, 1, …: other weights, orders and, but for
  few-shot, partitions) ± their standard deviation. It is of the *last* round or of the *best*,
  whichever the paper reports, and a mean over *devices* or right answers over all *samples*, as the
  paper's code counts. The best round is chosen on the test split: that is the papers' way, and
  flatters.
- *Reached* means: not below the paper by more than the paper's own standard deviation, or by more
  than 0.5 points where it gives none.
- A run is whole if it has the paper's rounds and samples, else what was cut stands beside it. A run
  that is not over says in which round it stands; it is in the curves and counts as no figure, but
  for one thing: where the paper reports the best round, the best of more rounds can only be higher,
  so a run whose best so far is enough has reached the figure (*≥*). How far above it would end,
  and what is asked of two cells side by side, stays open until it is over.
- In the curves the dotted lines are the papers' figures.
- Nothing was tuned on the test split. The settings are the papers' own; a *reading* settles
  otherwise what a paper leaves open. It is a cell of its own and moves no figure; many were written
  after a figure was missed, to find out why.
- Floats are a round's, of the whole fleet; *paper counts* is the same round as the method's paper
  counts it.
- What a run takes is wall time on two cores that had other work; for speed see
  [speed.md](speed.md).
"""
FIGURES = """| paper | figure | paper | ours | seeds | run | reached |
|---|---|---|---|---|---|---|"""
ASKED = """| cell | paper | ours, last | ours, best | reported | gap | asked | seeds × rounds | \
a run takes |
|---|---|---|---|---|---|---|---|---|"""
TRAFFIC = """| cell | floats up | floats down | bytes up | bytes down | paper counts |
|---|---|---|---|---|---|"""
READINGS = """| reading | ours, last | ours, best | beside the cell (same seeds) | seeds × rounds |
|---|---|---|---|---|"""
SO_FAR = """| side by side so far | lead | in round | asked in the last |
|---|---|---|---|"""
PICTURES = Path("images/results")


@dataclass(frozen=True)
class AllCells:
    """All cells, and what is there of them, by name."""

    cells: Mapping[str, Cell]
    runs: Mapping[str, Sequence[RunRecord]]
    failures: Mapping[str, Sequence[RunRecord]]
    stands: Mapping[str, Sequence[RunRecord]]
    places: Places
    times: Times


def gathered(sections: Sequence[Section], places: Places) -> AllCells:
    """Everything that is there for these sections."""
    cells = {cell.name: cell for section in sections for cell in _all(section)}
    over = {
        name: [r for seed in cell.due() if (r := kept(cell, seed, places)) is not None]
        for name, cell in cells.items()
    }
    stands = {
        name: [
            r
            for seed in cell.due()
            if seed not in {record.seed for record in over[name]}
            and (r := standing(cell, seed, places)) is not None
        ]
        for name, cell in cells.items()
    }
    return AllCells(
        cells,
        {name: [r for r in there if not r.failure] for name, there in over.items()},
        {name: [r for r in there if r.failure] for name, there in over.items()},
        stands,
        places,
        times(places.records),
    )


def page(sections: Sequence[Section], places: Places, beside: Path | None) -> str:
    """The page as Markdown; with a folder for it, its pictures go under `images/results/` there."""
    results = gathered(sections, places)
    lines = [HEAD, *_overview(sections, results, beside), READ]
    for section in sections:
        lines += _section(section, results, beside)
    lines += leaks.section(places.records)
    return "\n".join(lines)


def _overview(sections: Sequence[Section], results: AllCells, beside: Path | None) -> list[str]:
    """Every figure that a paper prints, in one picture and one table."""
    figures = [cell for section in sections for cell in section.cells if cell.paper is not None]
    if not figures:
        return []
    main = {cell.name for section in sections if section.main for cell in section.cells}
    first = [cell for cell in figures if cell.name in main]
    more = [cell for cell in figures if cell.name not in main]
    counts = [
        _count(f"Of {len(cells)} figures {words}:", cells, results)
        for words, cells in (("of the papers' main tables", first), ("of others", more))
        if cells
    ]
    lines = ["## All figures", "", " ".join(counts), ""]
    if beside is not None:
        plots.figures([_mark(cell, results) for cell in figures], beside / PICTURES / "figures.png")
        lines += [f"![the papers' figures and ours]({PICTURES / 'figures.png'})", ""]
    return [*lines, FIGURES, *(_figure(cell, results) for cell in figures), ""]


def _count(start: str, cells: Sequence[Cell], results: AllCells) -> str:
    good = [cell for cell in cells if _reached(cell, Aim("figure"), results)]
    early = sum(not results.runs[cell.name] for cell in good)
    bad = sum(bool(results.runs[cell.name]) for cell in cells if cell not in good)
    begun = sum(bool(_under_way(cell, results)) for cell in cells if cell not in good)
    absent = len(cells) - len(good) - bad - begun
    so_far = f" ({early} by runs that are not over)" if early else ""
    under_way = f", {begun} under way" if begun else ""
    return f"{start} {len(good)} reached{so_far}, {bad} missed{under_way}, {absent} not run."


def _under_way(cell: Cell, results: AllCells) -> Sequence[RunRecord]:
    """The runs that are not over of a cell of which none is."""
    return () if results.runs[cell.name] else results.stands[cell.name]


def _mark(cell: Cell, results: AllCells) -> Mark:
    assert cell.paper is not None
    mine = [cell.value(record) for record in results.runs[cell.name]]
    so_far = [cell.value(record) for record in results.stands[cell.name]]
    return Mark(
        cell.title,
        cell.paper,
        cell.slack,
        fmean(mine) if mine else None,
        fmean(so_far) if so_far else None,
    )


def _figure(cell: Cell, results: AllCells) -> str:
    mine = _decided(cell, results)
    seeds = f"{len(mine)} of {cell.seeds}" if mine else "–"
    columns = (_paper(cell), _ours(cell, results), seeds, _length(cell, results))
    return _row(cell.where, cell.title, *columns, _standing(cell, results))


def _decided(cell: Cell, results: AllCells) -> Sequence[RunRecord]:
    """The runs that say whether the figure is reached: those that are over, else those that were
    left because it is.
    """
    early = results.stands[cell.name] if _reached(cell, Aim("figure"), results) else ()
    return results.runs[cell.name] or early


def _ours(cell: Cell, results: AllCells) -> str:
    """Our figure; of runs that were left the least that it can come to."""
    decided = _decided(cell, results)
    if not decided:
        return "–"
    return ("" if results.runs[cell.name] else "≥ ") + _spread(cell, decided, cell.pick)


def _length(cell: Cell, results: AllCells) -> str:
    """How many rounds, and whether that is the paper's protocol or a part of it."""
    rounds, under_way = f"{cell.config.run.rounds} rounds", results.stands[cell.name]
    if not results.runs[cell.name]:
        if not under_way:
            return "–"
        rounds = f"{under_way[0].rounds} of {rounds}"
    return f"cut: {cell.cut}" if cell.cut else f"whole, {rounds}"


def _standing(cell: Cell, results: AllCells) -> str:
    """Whether the figure is reached, or why there is none."""
    mine = results.runs[cell.name]
    if mine:
        good = _reached(cell, Aim("figure"), results)
        if good:
            return _yes(good)
        why = (words_on(cell.name, mine, results.places.records), _by_readings(cell, results))
        return ": ".join([_yes(good), *filter(None, ["; ".join(filter(None, why))])])
    if results.failures[cell.name]:
        return results.failures[cell.name][0].failure
    if results.stands[cell.name]:
        record = results.stands[cell.name][0]
        where = f"in round {record.rounds} of {cell.config.run.rounds}"
        if _reached(cell, Aim("figure"), results):
            return f"{_yes(True)}, {where}"
        return f"{where}, {_number(cell, cell.value(record))} so far"
    lossless = " on lossless images" if cell.config.run.dataset == "cifar10" else ""
    minutes = results.times.minutes(cell, results.places)
    cost = "" if minutes is None else f": {duration(minutes)} a seed"
    return f"not run yet{lossless}{cost}"


def _by_readings(cell: Cell, results: AllCells) -> str:
    """Which readings of a figure that is missed would reach it, of those that were run."""
    tried = [r for r in results.cells.values() if r.reading_of == cell.name]
    ended = [reading for reading in tried if _decided(reading, results)]
    good = [
        f"{reading.title} ({_ours(reading, results)})"
        for reading in ended
        if _reached(reading, Aim("figure"), results)
    ]
    if good:
        return f"by a reading it is: {', '.join(good)}"
    return f"by none of {len(ended)} readings" if ended else ""


def _section(section: Section, results: AllCells, beside: Path | None) -> list[str]:
    there = [cell for cell in section.cells if results.runs[cell.name]]
    tried = [cell for cell in section.readings if results.runs[cell.name]]
    absent = [cell for cell in _all(section) if not results.runs[cell.name]]
    if not there and not tried and not any(results.stands[cell.name] for cell in absent):
        return []
    runs = [run for cell in (*there, *tried) for run in results.runs[cell.name]]
    # The digest is what a text in words.json has to name to be shown here.
    lines = [f"## {section.title}", "", f"<!-- {section.name}: {digest_of(runs)} -->", ""]
    if section.about:
        lines += [section.about, ""]
    if there:
        lines += [ASKED, *(_line(cell, results) for cell in there), ""]
    lines += _picture(section, results, beside)
    words = words_on(section.name, runs, results.places.records)
    if words:
        lines += [words, ""]
    if tried:
        lines += ["### Readings", "", READINGS, *(_reading(cell, results) for cell in tried), ""]
    early = [cell for cell in absent if _reached(cell, Aim("figure"), results)]
    for words, cells in (
        ("Reached before they are over", early),
        ("Without a figure", [cell for cell in absent if cell not in early]),
    ):
        named = "; ".join(f"{cell.title} ({_standing(cell, results)})" for cell in cells)
        lines += [f"{words}: {named}.", ""] if cells else []
    lines += _side_by_side(section.cells, results)
    if section.own_means:
        lines += own_means.table(judged(section, results), results.places)
    if there:
        lines += ["### What crossed", "", TRAFFIC]
        lines += [*(_traffic(cell, results.runs[cell.name]) for cell in there), ""]
    if there or tried:
        lines += ["### Settings", ""]
    for cell in (*there, *tried):
        lines += _settings(cell, results.runs[cell.name])
    return lines


def judged(section: Section, results: AllCells) -> list[tuple[Cell, RunRecord]]:
    """Its runs that classify by prototypes, over or not."""
    return [
        (cell, run)
        for cell in section.cells
        if cell.evaluator.startswith("prototype")
        for run in (*results.runs[cell.name], *results.stands[cell.name])
    ]


def _side_by_side(cells: Sequence[Cell], results: AllCells) -> list[str]:
    """Who leads after the rounds that both have, where what is asked of two cells is open."""
    leads = []
    for cell in cells:
        for aim in (aim for aim in cell.aims if aim.kind == "above"):
            other = results.cells[aim.other]
            ours, theirs = (
                {run.seed: run for run in (*results.runs[c.name], *results.stands[c.name])}
                for c in (cell, other)
            )
            pairs = [(run, theirs[seed]) for seed, run in ours.items() if seed in theirs]
            if not pairs or _lead(cell, aim, results) is not None:
                continue
            rounds = min(run.rounds for pair in pairs for run in pair)
            lead = fmean(
                cell.value_after(mine, rounds) - other.value_after(its, rounds)
                for mine, its in pairs
            )
            leads.append(
                _row(
                    f"{cell.title}, over {other.title}",
                    f"{100 * lead:+.2f}",
                    f"{rounds} of {cell.config.run.rounds}",
                    f"{100 * aim.amount:.2f}",
                )
            )
    return [SO_FAR, *leads, ""] if leads else []


def _all(section: Section) -> tuple[Cell, ...]:
    return (*section.cells, *section.readings)


def _line(cell: Cell, results: AllCells) -> str:
    mine = results.runs[cell.name]
    gap = "–"
    if cell.paper is not None:
        gap = f"{100 * (_mean(cell, mine) - cell.paper):+.2f}"
    aims = "; ".join(_verdict(cell, aim, results) for aim in cell.aims) or "–"
    best = "–" if cell.evaluator == MARGINS else _spread(cell, mine, "best")
    title = cell.title + (" (cut)" if cell.cut else "")
    return _row(
        title,
        _paper(cell),
        _spread(cell, mine, "last"),
        best,
        f"{cell.pick}, {cell.over}",
        gap,
        aims,
        f"{len(mine)} × {mine[0].rounds}",
        duration(fmean(run.seconds for run in mine) / 60),
    )


def _lead(cell: Cell, aim: Aim, results: AllCells) -> float | None:
    """Ours less the other cell's, over the seeds that both have: they share devices."""
    other = results.cells[aim.other]
    theirs = {run.seed: other.value(run) for run in results.runs[aim.other]}
    pairs = [
        cell.value(run) - theirs[run.seed] for run in results.runs[cell.name] if run.seed in theirs
    ]
    return fmean(pairs) if pairs else None


def _reached(cell: Cell, aim: Aim, results: AllCells) -> bool | None:
    """Whether the aim is; None where a run is missing to say so."""
    mine = results.runs[cell.name]
    if not mine:
        # What is not over cannot say no yet, but it may say yes: `Cell.settled`.
        early = results.stands[cell.name]
        settled = bool(early) and all(cell.settled(record) for record in early)
        return True if aim.kind == "figure" and settled else None
    if aim.kind in ("above", "within"):
        lead = _lead(cell, aim, results)
        if lead is None:
            return None
        if aim.kind == "within":
            return abs(lead) <= aim.amount
        # "More than" has no amount in some papers; then any lead will do.
        return lead >= aim.amount if aim.amount else lead > 0
    ours = _mean(cell, mine)
    if aim.kind == "figure":
        assert cell.paper is not None
        return ours >= cell.paper - cell.slack
    return ours >= aim.amount if aim.kind == "at least" else ours < aim.amount


def _verdict(cell: Cell, aim: Aim, results: AllCells) -> str:
    """What was asked, what it came to, and yes or no."""
    good = _reached(cell, aim, results)
    words = {
        "figure": "the paper's",
        "above": f"{100 * aim.amount:.2f} over {aim.other}",
        "within": f"within {100 * aim.amount:.2f} of {aim.other}",
        "at least": f"at least {aim.amount:g}",
        "below": f"below {aim.amount:g}",
    }[aim.kind]
    if good is None:
        return f"{words}: not run yet"
    lead = _lead(cell, aim, results) if aim.other else None
    return words + ("" if lead is None else f" ({100 * lead:+.2f})") + f": {_yes(good)}"


def _yes(good: bool | None) -> str:
    return "**reached**" if good else "**not reached**"


def _traffic(cell: Cell, mine: Sequence[RunRecord]) -> str:
    """A round of exchange, the last that there was."""
    exchange = mine[0].document["exchange"]
    counted = f"{exchange['paper_floats']:,}" + (
        f" (paper {cell.paper_floats:,})" if cell.paper_floats else ""
    )
    often = f" (in {exchange['rounds']} rounds)" if exchange["rounds"] < mine[0].rounds else ""
    numbers = (
        f"{exchange['up_floats']:,}",
        f"{exchange['down_floats']:,}",
        size(exchange["up_bytes"]),
        size(exchange["down_bytes"]),
    )
    return _row(cell.title + often, *numbers, counted)


def _reading(cell: Cell, results: AllCells) -> str:
    mine, base = results.runs[cell.name], results.cells[cell.reading_of]
    change = "–"
    lead = _lead(cell, Aim("above", other=base.name), results)
    if lead is not None:
        change = f"{lead:+.3f}" if cell.evaluator == MARGINS else f"{100 * lead:+.2f}"
    best = "–" if cell.evaluator == MARGINS else _spread(cell, mine, "best")
    rounds = f"{len(mine)} × {mine[0].rounds}"
    return _row(cell.title, _spread(cell, mine, "last"), best, f"{change} ({base.name})", rounds)


def _settings(cell: Cell, mine: Sequence[RunRecord]) -> list[str]:
    which = "margins" if cell.evaluator == MARGINS else f"`{cell.evaluator}`"
    classes = mine[0].document["client_classes"]
    under = "" if cell.config.run.partition_seed else " under seed 0"
    parts = [
        f"**{cell.title}** (`{cell.name}`): {which}",
        cell.note,
        f"cut: {cell.cut}" if cell.cut else "",
        f"{classes} client-classes{under}",
    ]
    words = "; ".join(part for part in parts if part) + "."
    if len(mine) > 1:
        by_seed = ", ".join(f"{run.seed}: {_number(cell, cell.value(run))}" for run in mine)
        words += f" By seed: {by_seed}."
    return [words + _others(cell, mine[0]), "", f"    {command_of(cell.config)} --seed SEED", ""]


def _others(cell: Cell, record: RunRecord) -> str:
    """What the last round of the first seed gives by other classifiers, and pooled."""
    final = record.document["final"]
    figures = [
        f"{name} {100 * value:.2f}"
        for name, value in final["each"].items()
        if name != cell.evaluator
    ]
    other = "pooled" if cell.over == "devices" else "each"
    if cell.evaluator in final[other]:
        named = "pooled over samples" if other == "pooled" else "mean over devices"
        figures.append(f"{named} {100 * final[other][cell.evaluator]:.2f}")
    return f" Also, seed {record.seed}, last: {', '.join(figures)}." if figures else ""


def _picture(section: Section, results: AllCells, beside: Path | None) -> list[str]:
    if beside is None or section.picture == "none":
        return []
    if section.picture == "maps":
        return _maps(section, results.places, beside)
    series, levels = {}, {}
    for cell in section.cells:
        mine, under_way = results.runs[cell.name], results.stands[cell.name]
        if cell.evaluator == MARGINS or not (mine or under_way):
            continue
        name = cell.name if mine else f"{cell.name} (unfinished)"
        series[name] = _curve(cell, mine or under_way[:1])
        if cell.paper is not None:
            levels[name] = cell.paper
    if not series:
        return []
    path = PICTURES / f"{section.name}.png"
    plots.curves(series, beside / path, section.title, "accuracy", levels)
    return [f"![accuracy per round]({path})", "", *_planes(section, results, beside)]


def _planes(section: Section, results: AllCells, beside: Path) -> list[str]:
    """What the networks of the section's methods make of the same samples, by t-SNE."""
    path, panels, newest = PICTURES / f"{section.name}-tsne.png", [], 0.0
    cells = [results.cells[name] for name in section.maps if results.runs[name]]
    for cell in cells:
        folder = results.places.run(cell, 0)
        if finished(folder, at_seed(cell.config, 0)) is None:
            continue
        samples = EmbeddedSamples.read(folder)
        if samples is not None:
            newest = max(newest, (folder / maps.FILE).stat().st_mtime)
            panels.append((cell.title, samples))
    # It takes seconds a panel, and what it shows changes with its runs alone.
    if panels and (not (beside / path).exists() or (beside / path).stat().st_mtime < newest):
        shown = [_plane(title, samples) for title, samples in panels]
        plots.class_maps(shown, beside / path)
    if not (beside / path).exists():
        return []
    words = (
        "Test samples of all devices as their networks see them after the last round, by t-SNE "
        "(seed 0); stars are prototypes, or class means where a method sends none of that space."
    )
    return [words, "", f"![t-SNE of test samples]({path})", ""]


def _plane(title: str, samples: EmbeddedSamples) -> ClassMap:
    points, stars = samples.flat()
    return ClassMap(
        title, points, samples.labels, stars, samples.star_classes, list(samples.classes)
    )


def _maps(section: Section, places: Places, beside: Path) -> list[str]:
    """Pictures of the runs' own: their samples are in their folders only, so what was copied once
    stays where a folder is gone.
    """
    drawn = []
    for cell in section.cells:
        source = places.run(cell, 0) / "embeddings.png"
        target = PICTURES / f"{cell.name}.png"
        if source.exists():
            (beside / target).parent.mkdir(parents=True, exist_ok=True)
            (beside / target).write_bytes(source.read_bytes())
        if (beside / target).exists():
            drawn.append(f"![{cell.title}: test samples and prototypes]({target})")
    return [*drawn, ""] if drawn else []


def _curve(cell: Cell, mine: Sequence[RunRecord]) -> list[tuple[int, float]]:
    """Mean over seeds, round by round."""
    rounds = zip(*(run.curve(cell.over) for run in mine), strict=False)
    return [(points[0][0], fmean(value for _, value in points)) for points in rounds]


def _mean(cell: Cell, mine: Sequence[RunRecord]) -> float:
    return fmean(cell.value(run) for run in mine)


def _paper(cell: Cell) -> str:
    if cell.paper is None:
        return "–"
    std = f" ± {_number(cell, cell.paper_std)}" if cell.paper_std else ""
    return _number(cell, cell.paper) + std


def _spread(cell: Cell, mine: Sequence[RunRecord], pick: Pick) -> str:
    values = [cell.value(run, pick) for run in mine]
    mean = _number(cell, fmean(values))
    # One run has no spread.
    return mean if len(values) < 2 else f"{mean} ± {_number(cell, stdev(values))}"


def _number(cell: Cell, value: float) -> str:
    return f"{value:.3f}" if cell.evaluator == MARGINS else f"{100 * value:.2f}"


def _row(*columns: str) -> str:
    return "| " + " | ".join(columns) + " |"
