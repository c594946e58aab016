"""`protofleet compare`: one row a method, each in a folder of its own."""

import json

from click.testing import CliRunner

from protofleet.errors import SettingError, UsageError
from simulators.cli.compare_cmd import compare

QUICK = ["--agents", "3", "--rounds", "1"]


def call(*words):
    return CliRunner().invoke(compare, [*words, *QUICK])


def test_every_method_has_a_row_and_a_folder(tmp_path):
    run = call("--methods", "local, fedproto", "--out", str(tmp_path))
    rows = {line.split()[0] for line in run.stdout.splitlines()}
    assert rows == {"method", "local", "fedproto"}
    for name in ("local", "fedproto"):
        assert json.loads((tmp_path / name / "result.json").read_text())["config"]["method"] == name
    again = call("--methods", "local,fedproto", "--out", str(tmp_path), "--resume", "--json")
    documents = json.loads(again.stdout)
    assert documents == json.loads((tmp_path / "compare.json").read_text())
    assert not again.stderr  # nothing was run


def test_no_method_and_a_setting_of_none_are_refused():
    assert isinstance(call("--methods", " , ").exception, UsageError)
    failure = call("--methods", "fedavg,fedproto", "--set", "mu=1").exception
    assert isinstance(failure, SettingError)
    assert "'mu'" in str(failure)
