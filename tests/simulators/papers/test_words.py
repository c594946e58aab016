"""A conclusion stands beside the figures it was written for, and beside no others."""

import json
from dataclasses import replace

from simulators.papers.records import RunRecord
from simulators.papers.words import digest_of, words_on

RUNS = [
    RunRecord("a", seed, {"final": {"each": {"head": 0.5 + seed / 10}, "pooled": {}}})
    for seed in (0, 1)
]


def test_a_text_is_shown_beside_the_figures_it_was_written_for_only(tmp_path):
    entries = {"a": {"of": digest_of(RUNS), "text": "It is so."}, "b": {"of": "", "text": "No."}}
    (tmp_path / "words.json").write_text(json.dumps(entries))
    assert words_on("a", RUNS, tmp_path) == "It is so."
    assert words_on("a", RUNS[::-1], tmp_path) == "It is so."
    assert words_on("b", RUNS, tmp_path) == ""
    assert words_on("c", RUNS, tmp_path) == ""
    better = replace(RUNS[1], document={"final": {"each": {"head": 0.7}, "pooled": {}}})
    assert words_on("a", [RUNS[0], better], tmp_path) == ""
    assert words_on("a", RUNS[:1], tmp_path) == ""
    assert words_on("a", [], tmp_path) == ""


def test_without_a_file_nothing_is_said(tmp_path):
    assert words_on("a", RUNS, tmp_path) == ""
    assert words_on("a", RUNS, None) == ""
