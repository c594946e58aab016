"""Several runs in one table: whose setting goes where, and what the columns say."""

from dataclasses import replace

import pytest

from protofleet.errors import SettingError
from simulators.run.comparison import Comparison, compared, lines, render


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
    (line,) = lines(Comparison({"a": document([0.1, 0.75, None, 0.76, 0.8])}))
    assert line.rounds_to_95 == 4  # 0.76 is 95 % of 0.8
    assert (line.best, line.head, line.prototype) == (0.8, 0.8, None)
    assert line.up_bytes == 300


def test_what_a_method_does_not_have_is_a_dash():
    text = render(Comparison({"a": document([0.5]), "longer": document([0.25])}))
    head, one, other = text.splitlines()
    assert head.split()[0] == "method"
    assert one.split()[:4] == ["a", "mlp", "–", "50.00"]
    assert other.split()[:4] == ["longer", "mlp", "–", "25.00"]
    assert len({len(line) for line in (head, one, other)}) == 1


def test_networks_that_differ_and_one_test_set_are_shown():
    final = {"each": {"head": 0.5}, "common": {"head": 0.25, "head_own_classes": 0.75}}
    other = document([0.5], config={"backbones": {"x": "lenet", "y": "cnn"}}, final=final)
    _, one, two, words = render(Comparison({"a": document([0.5]), "b": other})).splitlines()
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
    documents = compared(both, 1, None, resume=False).documents
    assert documents["fedproto"]["config"]["settings"]["lam"] == 2
    assert "lam" not in documents["local"]["config"]["settings"]
    with pytest.raises(SettingError, match="'mu'"):
        compared({"local": replace(both["local"], settings=("mu=1",))}, 1, None, resume=False)


def test_a_finished_run_is_read_and_not_made_again(small_lab, tmp_path):
    configs = {"local": small_lab("local", rounds=1)}
    first = compared(configs, 1, tmp_path, resume=True)
    stamp = (tmp_path / "local" / "result.json").stat().st_mtime_ns
    again = compared(configs, 1, tmp_path, resume=True)
    assert (tmp_path / "local" / "result.json").stat().st_mtime_ns == stamp
    assert again.documents["local"]["state_sha256"] == first.documents["local"]["state_sha256"]
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
