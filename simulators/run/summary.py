"""A comparison over several seeds as a paper has it: mean and 95 % interval of every contender, and
its paired difference from the baseline; as text, CSV and LaTeX.
"""

# Accuracy is of the last round: the best one is chosen on what it is measured on. The same seed
# deals the same data to the same devices for every contender, so differences are paired by seed.

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from simulators.run.comparison import Comparison, Document
from simulators.run.intervals import Difference, Interval, difference, interval
from simulators.run.result import alike

Measure = Callable[[Document], float | None]


@dataclass(frozen=True)
class Score:
    """One accuracy of one contender; `gap` is to the baseline, where there is another."""

    over: Interval
    gap: Difference | None


@dataclass(frozen=True)
class Summary:
    """One contender: on the devices' own test samples, and on one test set for all."""

    name: str
    own: Score | None
    common: Score | None


def summaries(comparison: Comparison) -> list[Summary]:
    """Every contender's."""
    return [
        Summary(name, _score(comparison, name, _own), _score(comparison, name, alike))
        for name in comparison.documents
    ]


def text(comparison: Comparison) -> str:
    """For a terminal."""
    heads = ["", "own test samples", "one test set for all"]
    base = comparison.baseline
    heads += [f"own, against {base}", f"one set, against {base}"] if base else []
    rows = [heads]
    for each in summaries(comparison):
        gaps = [_gap(each.own), _gap(each.common)] if base else []
        rows.append([each.name, _over(each.own), _over(each.common), *gaps])
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    table = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    table.append(f"last round, mean ± 95 % interval over {comparison.seeds} seeds, in percent")
    return "\n".join(line.rstrip() for line in table)


def as_csv(comparison: Comparison) -> str:
    """One row a contender and measure, in fractions."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(
        ["name", "measure", "seeds", "mean", "half", "baseline", "gap", "low", "high", "p"]
    )
    for each in summaries(comparison):
        for measure, score in (("own", each.own), ("one test set", each.common)):
            if score is not None:
                gap = score.gap
                against = (
                    [""] * 5
                    if gap is None
                    else [comparison.baseline, gap.mean, gap.low, gap.high, gap.p]
                )
                over = score.over
                writer.writerow([each.name, measure, over.seeds, over.mean, over.half, *against])
    return written.getvalue()


def latex(comparison: Comparison) -> str:
    r"""A tabular for booktabs; bold is the best mean, a star a difference from the baseline whose
    p is below 0.05.
    """
    shown = summaries(comparison)
    best = [
        max((s.over.mean for s in column if s is not None), default=0.0)
        for column in zip(*((each.own, each.common) for each in shown), strict=True)
    ]
    rows = [
        f"{_escaped(each.name)} & {_cell(each.own, best[0])} & {_cell(each.common, best[1])} \\\\"
        for each in shown
    ]
    lines = [
        r"\begin{tabular}{lcc}",
        r"\toprule",
        r"method & own test samples & one test set \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _score(comparison: Comparison, name: str, measure: Measure) -> Score | None:
    values = _values(comparison.documents[name], measure)
    if not values:
        return None
    base = comparison.baseline
    others = _values(comparison.documents[base], measure) if base and base != name else []
    gap = difference(values, others) if len(others) == len(values) else None
    return Score(interval(values), gap)


def _values(documents: Sequence[Document], measure: Measure) -> list[float]:
    """One a seed; nothing where some seed has none."""
    values = [value for each in documents if (value := measure(each)) is not None]
    return values if len(values) == len(documents) else []


def _own(document: Document) -> float | None:
    value: float | None = document["final"]["accuracy"]
    return value


def _over(score: Score | None) -> str:
    if score is None:
        return "–"
    half = f" ± {100 * score.over.half:.2f}" if isfinite(score.over.half) else ""
    return f"{100 * score.over.mean:.2f}{half}"


def _gap(score: Score | None) -> str:
    if score is None or score.gap is None:
        return ""
    gap = score.gap
    return f"{100 * gap.mean:+.2f} [{100 * gap.low:+.2f}, {100 * gap.high:+.2f}], p {gap.p:.2g}"


def _cell(score: Score | None, best: float) -> str:
    if score is None:
        return "--"
    mean = f"{100 * score.over.mean:.2f}"
    half = f" \\pm {100 * score.over.half:.2f}" if isfinite(score.over.half) else ""
    star = "^{*}" if score.gap is not None and score.gap.p < 0.05 else ""
    return (
        f"$\\mathbf{{{mean}}}{half}{star}$" if score.over.mean == best else f"${mean}{half}{star}$"
    )


def _escaped(name: str) -> str:
    return "".join(f"\\{c}" if c in "_&%#$" else c for c in name)
