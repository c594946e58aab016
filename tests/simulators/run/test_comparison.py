"""Several runs in one table: whose setting goes where, and what the columns say."""

from dataclasses import replace

import pytest

from protofleet.errors import SettingError, UsageError
from simulators.run.comparison import (
    CompareOptions,
    Comparison,
    compared,
    lines,
    planned,
    render,
)


def document(curve, **more):
    rows = [
        {
            "round": number,
            "accuracy": {} if value is None else {"head": value},
            "validation": {"head": 0.5},
            "up_bytes": 100 * number,
            "down_bytes": 0,
        }
        for number, value in enumerate(curve, 1)
    ]
    best = max((value for value in curve if value is not None), default=None)
    return {
        "rounds": rows,
        "config": {"backbones": {"x": "mlp"}},
        "final": {"each": {"head": curve[-1]}},
        "best": {"accuracy": best, "evaluator": "head"},
        "seconds": 2.0,
    } | more


def test_the_column_of_rounds_is_until_95_percent_of_its_own_best():
    (line,) = lines(Comparison({"a": [document([0.1, 0.75, None, 0.76, 0.8])]}))
    assert line.rounds_to_95 == 4  # 0.76 is 95 % of 0.8
    assert (line.best, line.head, line.prototype) == (0.8, 0.8, None)
    assert line.up_bytes == 300


def test_what_a_method_does_not_have_is_a_dash():
    text = render(Comparison({"a": [document([0.5])], "longer": [document([0.25])]}))
    head, one, other = text.splitlines()
    assert head.split()[0] == "method"
    assert one.split()[:4] == ["a", "mlp", "–", "50.00"]
    assert other.split()[:4] == ["longer", "mlp", "–", "25.00"]
    assert len({len(line) for line in (head, one, other)}) == 1


def test_networks_that_differ_and_one_test_set_are_shown():
    final = {"each": {"head": 0.5}, "common": {"head": 0.25, "head_own_classes": 0.75}}
    other = document([0.5], config={"backbones": {"x": "lenet", "y": "cnn"}}, final=final)
    _, one, two, words = render(Comparison({"a": [document([0.5])], "b": [other]})).splitlines()
    assert one.split()[:2] == ["a", "mlp"]
    assert two.split()[:7] == ["b", "cnn,", "lenet", "–", "50.00", "%", "25.00"]
    assert words.startswith("the networks differ")


def test_a_setting_goes_to_the_methods_that_have_it(small_lab):
    config = small_lab("fedproto", rounds=1)
    config = replace(config, settings=("lam=2",))
    both = {
        name: replace(config, run=replace(config.run, method=name))
        for name in ("local", "fedproto")
    }
    plans = {name: planned(each) for name, each in both.items()}
    documents = compared(plans, CompareOptions()).plain()
    assert documents["fedproto"]["config"]["settings"]["lam"] == 2
    assert "lam" not in documents["local"]["config"]["settings"]
    other = {"local": planned(replace(both["local"], settings=("mu=1",)))}
    with pytest.raises(SettingError, match="'mu'"):
        compared(other, CompareOptions())


def test_a_finished_run_is_read_and_not_made_again(small_lab, tmp_path):
    plans = {"local": planned(small_lab("local", rounds=1))}
    how = CompareOptions(out=tmp_path, resume=True)
    first = compared(plans, how)
    stamp = (tmp_path / "local" / "result.json").stat().st_mtime_ns
    again = compared(plans, how)
    assert (tmp_path / "local" / "result.json").stat().st_mtime_ns == stamp
    assert again.plain()["local"]["state_sha256"] == first.plain()["local"]["state_sha256"]
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_every_contender_is_run_with_every_seed(small_lab, tmp_path):
    plans = {name: planned(small_lab(name, rounds=1)) for name in ("local", "fedproto")}
    how = CompareOptions(seeds=2, baseline="local", out=tmp_path)
    comparison = compared(plans, how)
    for name in plans:
        seeds = [each["config"]["seed"] for each in comparison.documents[name]]
        assert seeds == [seeds[0], seeds[0] + 1]
        assert (tmp_path / name / f"seed-{seeds[1]}" / "result.json").exists()
        (line,) = (line for line in lines(comparison) if line.name == name)
        each = [document["best"]["accuracy"] for document in comparison.documents[name]]
        assert line.best == pytest.approx(sum(each) / 2)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (CompareOptions(seeds=2, baseline="moon"), "none of local"),
        (CompareOptions(baseline="local"), "one seed"),
    ],
)
def test_a_baseline_that_says_nothing_is_refused(how, words, small_lab):
    with pytest.raises(UsageError, match=words):
        compared({"local": planned(small_lab("local", rounds=1))}, how)


def test_where_all_are_tested_on_everyone_s_samples_that_is_the_column_of_one_test_set():
    config = {"backbones": {"x": "mlp"}, "test_on": "everyone"}
    final = {"each": {"head": 0.4, "head_all_classes": 0.3}}
    (line,) = lines(Comparison({"a": [document([0.4], config=config, final=final)]}))
    assert (line.head, line.common) == (0.4, 0.3)
