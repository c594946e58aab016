"""What several seeds say together, as text, CSV and LaTeX."""

import csv
import io

import pytest
from scipy import stats

from simulators.run.comparison import Comparison
from simulators.run.summary import as_csv, latex, summaries, text

OURS, THEIRS = [0.80, 0.84, 0.82], [0.70, 0.76, 0.70]


def document(accuracy, common=None):
    final = {"accuracy": accuracy, "common": {} if common is None else {"head": common}}
    return {"config": {}, "final": final, "best": {"evaluator": "head"}}


def comparison():
    return Comparison(
        {"my_method": [document(a, a - 0.5) for a in OURS], "base": [document(a) for a in THEIRS]},
        "base",
    )


def test_differences_are_paired_by_seed():
    ours, base = summaries(comparison())
    assert ours.own.over.mean == pytest.approx(0.82)
    assert ours.own.gap.p == pytest.approx(stats.ttest_rel(OURS, THEIRS).pvalue)
    assert base.own.gap is None
    assert base.common is None  # nobody measured it
    assert ours.common.gap is None  # and so there is nothing to hold against


def test_what_a_paper_takes():
    rows = list(csv.DictReader(io.StringIO(as_csv(comparison()))))
    assert [(row["name"], row["measure"]) for row in rows] == [
        ("my_method", "own"),
        ("my_method", "one test set"),
        ("base", "own"),
    ]
    assert float(rows[0]["gap"]) == pytest.approx(0.1)
    table = latex(comparison())
    assert "my\\_method & $\\mathbf{82.00} \\pm 4.97^{*}$" in table
    assert "base & $72.00" in table
    assert "+10.00 [" in text(comparison())
