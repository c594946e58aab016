"""`protofleet bench pages` says what a page costs a round."""

import json

from click.testing import CliRunner

from simulators.cli.bench_pages_cmd import pages
from simulators.speed import pages as measuring
from simulators.speed.pages import PageCost

ROWS = [
    PageCost("alone", 40, 20.0, 0.0, 5.0, 0.0, 0, 0),
    PageCost("flooded", 40, 22.5, 2.4, 5.5, 0.5, 10_000, 900),
]


def test_each_condition_is_a_line_beside_none(monkeypatch):
    monkeypatch.setattr(measuring, "bench_pages", lambda *_: ROWS)
    lines = CliRunner().invoke(pages).stdout.splitlines()
    assert " ".join(lines[1].split()) == "not there 40 20.0 ms +0.0 ms 5.0 ms +0.0 ms"
    assert lines[2].split()[-4:] == ["ms", "10,000", "900", "refused"]
    assert "+2.4" in lines[2]
    assert json.loads(CliRunner().invoke(pages, ["--json"]).stdout)[1]["requests"] == 10_000
