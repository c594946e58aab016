"""The document of a run says what was run, and counts what crossed."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from edge_agent.training.evaluate import Tally
from simulators.run.result import Row, Traffic, document, row_of, table
from simulators.run.rounds import LabOptions, run, run_in
from simulators.run.setup import prepare


def ended(config, **how):
    return run(prepare(config), LabOptions(**how), lambda row: None)


def test_the_result_says_what_was_run_and_counts_real_bytes(small_lab, tmp_path):
    outcome = run_in(prepare(small_lab()), LabOptions(), lambda row: None, tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result == json.loads(json.dumps(document(outcome)))
    assert result["schema"] == 1
    assert {
        "config",
        "rounds",
        "best",
        "final",
        "state_sha256",
        "seconds",
        "peak_rss_bytes",
        "partition",
    } <= set(result)
    held = sum(len(agent["classes"]) for agent in result["partition"]["agents"].values())
    for row in result["rounds"]:
        assert row["up_floats"] == held * result["config"]["contract"]["embedding"]
        assert 2 * row["up_floats"] < row["up_bytes"] < 2 * row["up_floats"] + 5 * 500
        assert 0 <= row["accuracy"]["prototype"] <= 1
    for name in ("curve.png", "partition.png", "embeddings.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "rounds.csv").read_text().count("\n") == 4
    assert len(result["final"]["per_agent"]) == 5
    assert set(result["final"]["per_class"]["prototype"]) == {str(i) for i in range(10)}


@pytest.mark.parametrize(
    ("method", "counted"),
    [
        ("fedproto", lambda held, agents: held * 64),
        ("fedmps", lambda held, agents: held * (128 + 64) + 10 * 10),
        ("mpfedcl", lambda held, agents: agents * 2 * 10 * 64),
        ("local", lambda held, agents: 0),
    ],
)
def test_a_round_is_counted_as_the_paper_counts_it(method, counted, small_lab):
    result = document(ended(small_lab(method)))
    held = sum(len(agent["classes"]) for agent in result["partition"]["agents"].values())
    assert len(result["partition"]["agents"]) == 5
    assert {row["paper_floats"] for row in result["rounds"]} == {counted(held, 5)}


def tally(correct, total):
    return Tally(np.array(correct), np.array(total))


def test_a_row_is_the_mean_over_devices_and_a_class_over_all_samples():
    tallies = {
        "a": {"test": {"head": tally([1, 0], [2, 0])}, "validation": {"head": tally([1], [1])}},
        "b": {"test": {"head": tally([9, 6], [9, 6]), "prototype": tally([0, 3], [9, 6])}},
    }
    row = row_of(4, tallies, Traffic(10, 2), Traffic(30, 6), 5)
    assert row.accuracy == {"head": pytest.approx(0.75), "prototype": pytest.approx(0.2)}
    assert row.accuracy_std == {"head": pytest.approx(0.25), "prototype": 0}
    assert row.validation == {"head": 1}
    assert row.per_agent == {"a": {"head": 0.5}, "b": {"head": 1.0, "prototype": 0.2}}
    assert row.per_class["head"] == [pytest.approx(10 / 11), 1.0]
    assert (row.up_bytes, row.down_bytes, row.up_floats, row.down_floats) == (10, 30, 2, 6)


def test_pooled_is_scikit_learn_s_accuracy_of_all_answers_together():
    rng = np.random.default_rng(0)
    tallies, answers, labels = {}, [], []
    for name, samples in (("a", 3), ("b", 40), ("c", 700)):
        y = rng.integers(0, 4, samples)
        said = np.where(rng.random(samples) < 0.6, y, (y + 1) % 4)
        tallies[name] = {
            "test": {
                "head": tally(
                    np.bincount(y[said == y], minlength=4).tolist(),
                    np.bincount(y, minlength=4).tolist(),
                )
            }
        }
        answers.append(said)
        labels.append(y)
    row = row_of(1, tallies, Traffic(), Traffic(), 0)
    together = accuracy_score(np.concatenate(labels), np.concatenate(answers))
    apart = [accuracy_score(y, said) for y, said in zip(labels, answers, strict=True)]
    assert row.pooled["head"] == pytest.approx(together)
    assert row.accuracy["head"] == pytest.approx(np.mean(apart))


def test_a_device_of_one_sample_weighs_one_sample_in_the_pool():
    tallies = {"a": {"test": {"head": tally([1], [1])}}, "b": {"test": {"head": tally([0], [99])}}}
    row = row_of(1, tallies, Traffic(), Traffic(), 0)
    assert (row.accuracy["head"], row.pooled["head"]) == (0.5, 0.01)


def test_on_everyone_s_test_set_both_are_the_same(small_lab):
    row = ended(small_lab(rounds=1, test_on="everyone")).rows[-1]
    assert row.pooled == pytest.approx(row.accuracy)


def test_the_best_pooled_round_is_its_own(small_lab):
    outcome = ended(small_lab(rounds=6))
    result = json.loads(json.dumps(document(outcome)))
    for name, best in result["best"]["pooled"].items():
        curve = [row.pooled[name] for row in outcome.rows]
        assert (best["accuracy"], best["round"]) == (max(curve), curve.index(max(curve)) + 1)
    assert result["final"]["pooled"] == dict(outcome.rows[-1].pooled)
    assert result["rounds"][0]["pooled"] == dict(outcome.rows[0].pooled)


def test_a_device_without_samples_of_a_split_has_no_say_in_it():
    tallies = {"a": {"test": {"head": tally([0], [0])}}, "b": {"test": {"head": tally([1], [2])}}}
    assert row_of(1, tallies, Traffic(), Traffic(), 0).accuracy == {"head": 0.5}


def test_the_table_has_a_column_for_every_classifier_and_a_blank_where_none_was_asked():
    last = Row(2, {"head": 0.5}, {"head": 0.1}, {"head": 0.25}, up_bytes=7, pooled={"head": 0.75})
    rows = [Row(1), last]
    lines = table(rows).splitlines()
    assert lines[0].split(",")[:4] == [
        "round",
        "accuracy_head",
        "accuracy_std_head",
        "validation_head",
    ]
    assert lines[1].startswith("1,,,,0,")
    assert lines[2].startswith("2,0.5,0.1,0.25,7,")
    assert lines[0].endswith("seconds,pooled_head")
    assert [line.split(",")[-1] for line in lines[1:]] == ["", "0.75"]


def test_the_best_round_and_the_one_that_validation_chooses_are_told_apart(small_lab):
    outcome = ended(small_lab(rounds=6))
    result = document(outcome)
    accuracies = [row.accuracy["prototype"] for row in outcome.rows]
    checks = [row.validation["prototype"] for row in outcome.rows]
    assert result["best"]["accuracy"] == max(accuracies)
    chosen = result["selected_by_validation"]
    assert chosen["round"] == checks.index(max(checks)) + 1
    assert chosen["accuracy"] == accuracies[chosen["round"] - 1]
