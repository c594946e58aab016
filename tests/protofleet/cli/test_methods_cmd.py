"""What is installed, and every setting of a method as it may be set."""

import json

import pytest
from click.testing import CliRunner

from protofleet import registry
from protofleet.cli.methods_cmd import methods
from protofleet.errors import UnknownMethod
from protofleet.settings.fields import parse_pairs


def said(*words: str) -> str:
    outcome = CliRunner().invoke(methods, words, standalone_mode=False)
    if outcome.exception is not None:
        raise outcome.exception
    return outcome.output


def test_every_method_is_listed_for_people_and_programs():
    names = registry.names()
    assert [line.split()[0] for line in said().splitlines()] == names
    assert [row["name"] for row in json.loads(said("--json"))] == names


@pytest.mark.parametrize("name", registry.names())
def test_the_settings_that_are_shown_can_be_set(name):
    shown = json.loads(said("show", name, "--json"))
    pairs = [f"{s['name']}={s['default']}" for s in shown["settings"] if s["default"] is not None]
    recipe = registry.load(name)
    assert parse_pairs(recipe.hyper, pairs) == recipe.hyper()
    assert all(s["help"] for s in shown["settings"])
    lines = said("show", name)
    assert all(f"--set {s['name']}={s['default']}" in lines for s in shown["settings"])


def test_an_unknown_method_is_answered_with_the_nearest():
    with pytest.raises(UnknownMethod, match="did you mean 'fedproto'"):
        said("show", "fedprot")


def test_one_that_cannot_be_imported_is_one_line_and_stops_no_other(monkeypatch, tmp_path):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[protofleet.methods]\nbroken = broken_method:recipe\n")
    (tmp_path / "broken_method.py").write_text("raise ValueError('two\\nlines')\n")
    names = registry.names()
    monkeypatch.syspath_prepend(tmp_path)
    outcome = CliRunner().invoke(methods, [], standalone_mode=False)
    assert [line.split()[0] for line in outcome.stdout.splitlines()] == names
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("warning: method 'broken' of broken_method:recipe cannot be loaded")
    assert "ValueError: two lines" in line
