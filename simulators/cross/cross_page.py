"""The page of the cross: tables by task, the ablation, newcomers, and accuracy against bytes as a
picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from simulators.cross import cross, newcomers
from simulators.cross.cross import (
    ABLATION,
    FLEET,
    FULL_CONTENDERS,
    FULL_TASKS,
    IMPROVED,
    PAPERS,
    TASKS,
    Contender,
    Task,
)
from simulators.cross.newcomers import Newcomer
from simulators.cross.paired import (
    Document,
    accuracy,
    bytes_a_device,
    crossed,
    paired,
    rounds_to,
    within,
)
from simulators.papers.cell import Places
from simulators.run import plots
from simulators.run.intervals import Difference
from simulators.run.progress import size

OURS = "prototype"  # fleet's one classifier goes by this name
Runs = Mapping[int, Document]


@dataclass(frozen=True)
class AllTasks:
    """The finished runs of the tasks, by task and contender."""

    tasks: Sequence[Task]
    runs: Mapping[tuple[str, str], Runs]

    def of(self, task: Task, contender: Contender) -> Runs:
        """By seed; none where nothing was run."""
        return self.runs.get((task.name, contender.name), {})


def gather(tasks: Sequence[Task], seeds: int, places: Places) -> AllTasks:
    """What there is."""
    runs = {
        (t.name, c.name): cross.finished_runs(t, c, seeds, places)
        for t in tasks
        for c in cross.CONTENDERS
    }
    return AllTasks(tasks, runs)


def verdicts(results: AllTasks, rivals: Sequence[Contender]) -> list[str]:
    """One row a rival: on each task the smaller of fleet's two leads, over its prototypes and over
    its head.
    """
    lines = ["| fleet above | " + " | ".join(task.name for task in results.tasks) + " | tasks |"]
    lines.append("|---" * (len(results.tasks) + 2) + "|")
    for rival in rivals:
        cells, won, compared = [], 0, 0
        for task in results.tasks:
            least = narrowest(results, task, rival)
            cells.append("–" if least is None else in_points(least))
            won += least is not None and least.above
            compared += least is not None
        count = f"{won} of {compared}" if compared else "–"
        lines.append(f"| {rival.title} | " + " | ".join(cells) + f" | {count} |")
    return lines


def narrowest(results: AllTasks, task: Task, rival: Contender) -> Difference | None:
    """fleet less the rival in the last round, by the rival's better classifier."""
    mine = task.compared[OURS]
    leads = [
        lead
        for other in task.compared.values()
        if (lead := paired(results.of(task, FLEET), results.of(task, rival), mine, other, "last"))
        is not None
    ]
    # The rival chooses its classifier after the fact, on the test split. fleet has one and cannot.
    return min(leads, key=lambda lead: lead.mean, default=None)


def in_points(lead: Difference) -> str:
    """In points, with the interval; bold where all of it is above zero."""
    mean = f"{100 * lead.mean:+.1f}"
    if lead.pairs < 2:
        return f"{mean} (one seed)"
    words = f"{mean} [{100 * lead.low:+.1f}, {100 * lead.high:+.1f}]"
    return f"**{words}**" if lead.above else words


def table(task: Task, results: AllTasks, contenders: Sequence[Contender]) -> list[str]:
    """What each reached, by prototypes and by head, last and best; at how many bytes, and at
    fleet's.
    """
    lines = [
        "| | prototypes, last | best | head, last | best | a device's bytes | at fleet's bytes | "
        "seeds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    # Seed by seed: how many bytes fleet takes depends on which classes a device holds.
    spent = {seed: bytes_a_device(run) for seed, run in results.of(task, FLEET).items()}
    for contender in contenders:
        runs = list(results.of(task, contender).values())
        if not runs:
            continue
        cells = [
            _mean([a for run in runs if (a := accuracy(run, name, pick)) is not None])
            for name in task.compared.values()
            for pick in ("last", "best")
        ]
        cells.append(size(fmean(bytes_a_device(run) for run in runs)))
        cells.append(_mean(_at_equal_bytes(task, results.of(task, contender), spent)))
        lines.append(f"| {contender.title} | " + " | ".join(cells) + f" | {len(runs)} |")
    return lines


def ablation(task: Task, results: AllTasks) -> list[str]:
    """What is left when a part is taken away or stands alone, and how far fleet is above it on the
    same seeds.
    """
    lines = [
        f"| {task.title} | prototypes, last | head, last | a device's bytes "
        "| fleet above it | seeds |",
        "|---|---|---|---|---|---|",
    ]
    for contender in (FLEET, *ABLATION):
        runs = results.of(task, contender)
        if not runs:
            continue
        cells = [
            _mean([a for run in runs.values() if (a := accuracy(run, name, "last")) is not None])
            for name in task.compared.values()
        ]
        cells.append(size(fmean(bytes_a_device(run) for run in runs.values())))
        lead = None if contender is FLEET else narrowest(results, task, contender)
        cells.append("–" if lead is None else in_points(lead))
        lines.append(f"| {contender.title} | " + " | ".join(cells) + f" | {len(runs)} |")
    return lines


def _at_equal_bytes(task: Task, runs: Runs, spent: Mapping[int, float]) -> list[float]:
    """By whichever classifier is better there."""
    by_name = [
        [
            a
            for seed, run in runs.items()
            if seed in spent and (a := within(run, name, spent[seed])) is not None
        ]
        for name in task.compared.values()
    ]
    return max(by_name, key=lambda accuracies: fmean(accuracies) if accuracies else 0.0)


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "–"
    spread = f" ± {100 * stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.2f}{spread}"


def speed(results: AllTasks) -> list[str]:
    """Rounds until fleet is where the best paper's method ends."""
    lines = [
        "| task | best of the papers | it ends at | in rounds | fleet is there after |",
        "|---|---|---|---|---|",
    ]
    for task in results.tasks:
        ends: list[tuple[float, Contender]] = []
        for rival in PAPERS:
            runs = results.of(task, rival)
            last = [
                fmean(values)
                for name in task.compared.values()
                if (
                    values := [
                        a for run in runs.values() if (a := accuracy(run, name, "last")) is not None
                    ]
                )
            ]
            ends += [(max(last), rival)] if last else []
        mine = results.of(task, FLEET)
        if not ends or not mine:
            continue
        end, best = max(ends, key=lambda pair: pair[0])
        needed = [rounds_to(run, task.compared[OURS], end) for run in mine.values()]
        there = "not in every run" if None in needed else f"{fmean(n for n in needed if n):.1f}"
        rounds = task.config.run.rounds
        lines.append(f"| {task.title} | {best.title} | {100 * end:.2f} % | {rounds} | {there} |")
    return lines


def late_and_rare(cases: Sequence[Newcomer], seeds: int, out: Path) -> list[str]:
    """The two cases: a row for each classifier of a contender."""
    lines: list[str] = []
    for case in cases:
        rows = []
        columns: list[str] = []
        for contender in newcomers.CONTENDERS:
            paths = [out / case.name / contender.name / f"{seed}.json" for seed in range(seeds)]
            measured = [
                newcomers.run(case, contender, int(path.stem), out)
                for path in paths
                if path.exists()
            ]
            if not measured:
                continue
            for by in [
                name for name in measured[0] if name in case.task.compared.values()
            ] or measured[0]:
                columns = list(measured[0][by])
                cells = [_mean([one[by][column] for one in measured]) for column in columns]
                rows.append(
                    f"| {contender.title} | {by} | " + " | ".join(cells) + f" | {len(measured)} |"
                )
        if rows:
            head = f"| {case.task.title} | by | " + " | ".join(columns) + " | seeds |"
            lines += [f"### {case.title}", "", head, "|---" * (len(columns) + 3) + "|", *rows, ""]
    return lines


def full_page(seeds: int, places: Places) -> str:
    """The figures at the papers' own length, as Markdown; what was not run is a dash."""
    results = gather(FULL_TASKS, seeds, places)
    lines = [*verdicts(results, PAPERS), ""]
    for task in FULL_TASKS:
        if results.of(task, FLEET) or any(results.of(task, rival) for rival in PAPERS):
            lines += [f"### {task.title}", "", *table(task, results, FULL_CONTENDERS), ""]
    return "\n".join(lines)


def page(seeds: int, places: Places, beside: Path | None) -> str:
    """The five tasks' figures as Markdown, to stand in docs/fleet-method.md between two marks."""
    results = gather(TASKS, seeds, places)
    lines = [
        "### Against the papers' methods, as their papers have them",
        "",
        *verdicts(results, PAPERS),
        "",
    ]
    improved = [rival for rival in IMPROVED if any(results.of(task, rival) for task in TASKS)]
    if improved:
        lines += [
            "### Against the same with common initial weights and weights averaged over ten rounds",
            "",
        ]
        lines += [*verdicts(results, improved), ""]
    for task in TASKS:
        lines += [f"### {task.title}", "", *table(task, results, (FLEET, *PAPERS, *improved)), ""]
    if beside is not None:
        picture = Path("images/fleet-bytes.png")
        panels = {task.title: _curves(task, results) for task in TASKS[:4]}
        panels = {title: series for title, series in panels.items() if series}
        if panels:
            plots.against_bytes(panels, beside / picture)
            lines += [f"![accuracy against bytes]({picture})", ""]
    lines += ["### Rounds", "", *speed(results), ""]
    lines += ["### What each part gives", ""]
    for task in TASKS:
        lines += [*ablation(task, results), ""]
    lines += late_and_rare(newcomers.CASES, seeds, places.runs)
    return "\n".join(lines)


def _curves(task: Task, results: AllTasks) -> dict[str, tuple[tuple[float, float], ...]]:
    """The first seed's curve of each, by its better classifier in the end."""
    curves = {}
    for contender in (FLEET, *PAPERS):
        run = results.of(task, contender).get(0)
        if run is None:
            continue
        name = max(task.compared.values(), key=lambda by: accuracy(run, by, "last") or 0.0)
        totals = zip(crossed(run), run["rounds"], strict=True)
        curves[contender.title] = tuple((total, row["accuracy"][name]) for total, row in totals)
    return curves
