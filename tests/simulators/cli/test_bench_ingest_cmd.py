"""`protofleet bench ingest` prints medians, the spread of the rates, and one ratio."""

import json

import pytest
from click.testing import CliRunner

from simulators.cli.bench_ingest_cmd import ingest
from simulators.speed import ingest as measuring
from simulators.speed.ingest import Ingested


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    def runs(name, rates, **waits):
        return [Ingested(name, 60, 0, rate, 100.0, 30.0, 7.0, 9.0, **waits) for rate in rates]

    rows = [
        *runs("bare", (8000.0, 10_000.0, 30_000.0)),
        *runs("coordinator", (2000.0, 2500.0, 2600.0), p50_ms=1.5, p99_ms=9.25),
    ]
    under = runs("coordinator, signed", (1000.0, 1250.0, 1300.0), p50_ms=3.0, p99_ms=20.0)
    shared = runs("with 2 ingesters", (3000.0, 3100.0), p50_ms=1.0, p99_ms=5.0, own_us=40.0)

    def made(*_, signed, counts):
        return rows + shared * (2 in counts) + under * signed

    monkeypatch.setattr(measuring, "bench_ingest", made)
    return rows


def test_the_ratio_is_that_of_the_medians():
    lines = CliRunner().invoke(ingest, ["--uploads", "60", "--runs", "3"]).stdout.splitlines()
    assert lines[0].startswith("60 uploads of 20 KB")
    assert lines[2].split() == ["bare", "10,000", "100", "0", "30"]
    assert lines[3].split() == ["coordinator", "2,500", "100", "0", "30", "1.5", "9.2"]
    assert lines[4].startswith("bare: 8,000 to 30,000 uploads/s")
    assert lines[-1].startswith("ratio 0.25;")


def test_programs_get_every_run(measured):
    rows = json.loads(CliRunner().invoke(ingest, ["--json"]).stdout)
    assert [row["per_second"] for row in rows] == [row.per_second for row in measured]


def test_signatures_stand_beside_none():
    lines = CliRunner().invoke(ingest, ["--signed"]).stdout.splitlines()
    assert any(line.startswith("coordinator, signed") for line in lines)
    assert lines[-1].startswith("signed: 0.50 of the plain rate, +0 µs CPU each")


def test_several_processes_stand_beside_one_and_what_is_computed_says_so():
    lines = CliRunner().invoke(ingest, ["--ingest", "1,2"]).stdout.splitlines()
    (line,) = [line for line in lines if "computed" in line]
    assert line.startswith("with 2 ingesters: 1.00 of the processor time of one process, 40 µs")
    assert "25,000 uploads/s, where one process has 10,000" in line


def test_numbers_of_processes_that_are_none_are_refused():
    assert CliRunner().invoke(ingest, ["--ingest", "1,x"]).exception
