import json

from click.testing import CliRunner

from simulators.cli.bench_smoothing_cmd import smoothing
from simulators.streams import smoothings


def test_a_line_for_each_rule_or_a_document(tmp_path, monkeypatch):
    (tmp_path / "x.pfb").touch()
    monkeypatch.setattr(smoothings, "compared", lambda *words: {"votes": [0.5, 0.75]})
    words = ["--data", str(tmp_path), "--extractor", str(tmp_path / "x.pfb")]
    assert CliRunner().invoke(smoothing, words).output.split() == ["votes", "62.50", "%"]
    document = json.loads(CliRunner().invoke(smoothing, [*words, "--json"]).output)
    assert document == {"votes": [0.5, 0.75]}
