"""What is kept of a run: its figures as its result has them, and for its own settings alone."""

import json
import math
from dataclasses import replace

import pytest

from edge_agent.data.sets import load
from simulators.papers import records
from simulators.papers.cell import at_seed, changed
from simulators.run.rounds import LabOptions, run_in
from simulators.run.setup import prepare


@pytest.fixture(scope="module")
def result(small_lab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run_in(prepare(small_lab(rounds=4)), LabOptions(), lambda row: None, folder)
    return json.loads((folder / "result.json").read_text())


def test_a_record_has_the_figures_of_its_run(result, tmp_path):
    record = records.record_of("small", "prototype", result)
    rows = result["rounds"]
    for name in ("prototype", "head"):
        means = [row["accuracy"][name] for row in rows]
        pooled = [row["pooled"][name] for row in rows]
        assert record.accuracy(name, "devices", "last") == pytest.approx(means[-1], abs=1e-6)
        assert record.accuracy(name, "devices", "best") == pytest.approx(max(means), abs=1e-6)
        assert record.accuracy(name, "samples", "last") == pytest.approx(pooled[-1], abs=1e-6)
        assert record.accuracy(name, "samples", "best") == pytest.approx(max(pooled), abs=1e-6)
    assert math.isnan(record.accuracy("absent", "devices", "last"))
    assert record.curve("devices") == [
        (row["round"], round(row["accuracy"]["prototype"], 4)) for row in rows
    ]
    assert record.curve("samples")[-1] == (4, round(rows[-1]["pooled"]["prototype"], 4))
    best = record.document["best"]["each"]["prototype"]["round"]
    assert best == result["best"]["each"]["prototype"]["round"]
    assert record.document["bytes"]["up"] == sum(row["up_bytes"] for row in rows)
    assert record.document["exchange"]["up_floats"] == rows[-1]["up_floats"]
    assert record.document["exchange"]["rounds"] == 4
    assert record.seconds == pytest.approx(sum(row["seconds"] for row in rows), abs=0.1)
    path = records.write(record, tmp_path)
    assert path == tmp_path / "small" / "4.json"
    assert records.read(tmp_path, "small", 4) == record
    assert path.stat().st_size < 8000


def test_nothing_in_it_says_where_or_when_it_was_made(result):
    text = json.dumps(records.record_of("small", "prototype", result).document)
    assert "versions" not in text
    assert result["config"]["machine"] not in text
    elsewhere = json.loads(json.dumps(result))
    elsewhere["config"] |= {"machine": "other", "versions": {}}
    assert records.record_of("small", "prototype", elsewhere).document == json.loads(text)


def test_it_counts_for_the_very_same_options_and_no_others(result, small_lab):
    recorded = records.record_of("small", "prototype", result).document["config"]
    config = small_lab(rounds=4)
    assert recorded == records.config_of(config)
    assert records.same(recorded, config)
    for other in (
        at_seed(config, 5),
        changed(config, rounds=5),
        changed(config, lr=0.04),
        changed(config, alpha=0.4),
        changed(config, ("lam=2",)),
        changed(config, layout="channels-last"),
        changed(config, (), method="protonorm"),
    ):
        assert not records.same(recorded, other)


def test_an_option_that_came_later_had_its_default(result, small_lab):
    recorded = records.record_of("small", "prototype", result).document["config"]
    for section, option in (
        ("run", "averaging"),
        ("partition", "pairs"),
        ("training", "augment"),
        ("settings", "weighted"),
    ):
        recorded[section] = {k: v for k, v in recorded[section].items() if k != option}
    config = small_lab(rounds=4)
    assert records.same(recorded, config)
    assert not records.same(recorded, changed(config, averaging=5))
    assert not records.same({}, config)


def test_one_that_stopped_is_not_finished_and_one_that_failed_says_why(result, small_lab, tmp_path):
    assert records.record_of("small", "prototype", result).finished
    stopped = result | {"rounds": result["rounds"][:3]}
    assert not records.record_of("small", "prototype", stopped).finished
    failed = records.failed("small", small_lab(), "round 2: not finite", 1)
    records.write(failed, tmp_path)
    back = records.read(tmp_path, "small", 4)
    assert (back.failure, back.rounds, back.finished) == ("round 2: not finite", 1, False)


def test_rows_from_before_pooled_accuracy_are_kept_without_it(result):
    rows = [{k: v for k, v in row.items() if k != "pooled"} for row in result["rounds"]]
    record = records.record_of("small", "prototype", result | {"rounds": rows})
    assert record.accuracy("prototype", "devices", "last") > 0
    assert math.isnan(record.accuracy("prototype", "samples", "best"))


def test_what_cannot_be_read_is_not_there(tmp_path):
    assert records.read(tmp_path, "small", 0) is None
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "0.json").write_text("{")
    assert records.read(tmp_path, "small", 0) is None
    (tmp_path / "small" / "0.json").write_text('{"format": 99}')
    assert records.read(tmp_path, "small", 0) is None


def test_a_digest_tells_two_sets_of_one_name_apart():
    data = load("digits", data_dir=None)
    x = data.x.copy()
    x[0, 0, 0] += 1
    assert records.digest(data) == records.digest(replace(data))
    assert records.digest(data) != records.digest(replace(data, x=x))
