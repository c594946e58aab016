"""The page of the cross: leads seed by seed, what was not run as a dash."""

import numpy as np
import pytest

from simulators.cross.cross import ABLATION, FLEET, PAPERS, Contender, finished_runs, run
from simulators.cross.cross_page import (
    AllTasks,
    ablation,
    full_page,
    in_points,
    narrowest,
    page,
    speed,
    table,
    verdicts,
)
from simulators.papers.cell import Places
from simulators.run.intervals import Difference

PROTO = PAPERS[0]


def test_a_lead_is_over_the_rival_s_better_classifier(ran):
    task, _, known = ran
    lead = narrowest(known, task, PROTO)
    ends = {
        name: np.mean([d["final"]["each"][name] for d in known.of(task, PROTO).values()])
        for name in ("prototype", "head_own_classes")
    }
    mine = np.mean([d["final"]["each"]["prototype"] for d in known.of(task, FLEET).values()])
    assert lead.mean == pytest.approx(mine - max(ends.values()))
    assert f"| FedProto | {in_points(lead)} | {int(lead.above)} of 1 |" in verdicts(known, [PROTO])
    rows = table(task, known, (FLEET, PROTO))
    assert len(rows) == 4
    assert f"| fleet | {100 * mine:.2f}" in rows[2]
    assert rows[3].endswith("| 2 |")
    best = max(ends.values())
    assert f"| FedProto | {100 * best:.2f} % | 3 |" in speed(known)[2]


def test_the_ablation_compares_on_the_seeds_that_both_have(ran):
    task, places, known = ran
    (bare,) = (each for each in ABLATION if each.name == "bare")
    run(task, bare, 1, places, 1)
    both = AllTasks([task], {**known.runs, ("small", "bare"): finished_runs(task, bare, 3, places)})
    mine, its = (both.of(task, each)[1]["final"]["each"]["prototype"] for each in (FLEET, bare))
    rows = ablation(task, both)
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| fleet", f"| {bare.title}"]
    assert rows[-1].endswith(f"| {100 * (mine - its):+.1f} (one seed) | 1 |")


def test_what_was_not_run_is_a_dash(ran):
    _, _, known = ran
    absent = Contender("absent", "Nobody", "fedproto")
    assert "| Nobody | – | – |" in verdicts(known, [absent])


@pytest.mark.parametrize(
    ("lead", "words"),
    [
        (Difference(0.02, 0.01, 0.03, 5), "**+2.0 [+1.0, +3.0]**"),
        (Difference(0.02, -0.01, 0.05, 5), "+2.0 [-1.0, +5.0]"),
        (Difference(-0.02, float("-inf"), float("inf"), 1), "-2.0 (one seed)"),
    ],
)
def test_only_a_lead_whose_whole_interval_is_above_zero_is_bold(lead, words):
    assert in_points(lead) == words


def test_a_page_of_nothing_has_its_tables_and_no_picture(tmp_path):
    text = page(2, Places(tmp_path / "runs"), tmp_path)
    assert text.count("### ") > 5
    assert not list(tmp_path.rglob("*.png"))


def test_at_full_length_what_was_not_run_is_a_dash_and_no_table(tmp_path):
    text = full_page(2, Places(tmp_path))
    assert "| fleet above | paper-cifar10 | paper-fashion | paper-cifar10-everyone |" in text
    assert "| FedMPS | – | – | – | – | – |" in text
    assert "###" not in text
