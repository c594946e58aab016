"""`protofleet bench crowd`, but for what it measures (see `tests/simulators/throngs`)."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from simulators.cli.bench_cmd import bench
from simulators.cli.bench_crowd_cmd import table
from simulators.throngs import throng
from simulators.throngs.throng import Act, CrowdFigures, CrowdOptions

FIGURES = CrowdFigures(
    devices=10_000,
    processes=4,
    acts=[Act("births", 10_000, 12.34, 210.0, 0.05, 0.31)],
    coordinator_mb=210.4,
    broker_mb=80.0,
    page_mb=60.0,
    journal_bytes=31_400_000,
    announcement_bytes=700,
    page_bytes=2_000_000,
    said_again=3,
    asked=5_000,
    lost=0,
    states={"1": "same", "2": "compacted"},
)


def test_a_line_an_act_and_the_rest_below():
    lines = table(FIGURES).splitlines()
    assert lines[0] == "10,000 devices in 4 processes"
    assert lines[2].split() == ["births", "10,000", "12.3", "210", "0.05", "0.31"]
    assert "coordinator 210 MB" in lines[3]
    assert lines[4].split() == ["journal", "31.4", "MB"]
    assert lines[-1].split() == ["lost", "0"]


@pytest.mark.parametrize(
    ("change", "code"),
    [({}, 0), ({"lost": 1}, 1), ({"states": {"1": "same", "2": "differs"}}, 1)],
)
def test_it_fails_where_anything_is_lost(change, code, monkeypatch):
    orders = []

    def measured(options, folder, tell):
        orders.append(options)
        return replace(FIGURES, **change)

    monkeypatch.setattr(throng, "bench_crowd", measured)
    done = CliRunner().invoke(bench, ["crowd", "--devices", "70", "--share", "0.5", "--json"])
    assert done.exit_code == code
    assert orders == [CrowdOptions(70, 0.5)]
    assert json.loads(done.stdout)["devices"] == 10_000


def test_help_teaches_by_example():
    done = CliRunner().invoke(bench, ["crowd", "--help"])
    assert "protofleet bench crowd --devices 10000" in done.output
