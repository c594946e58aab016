"""`protofleet bench overhead` says what a round costs beside its training."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from simulators.cli.bench_overhead_cmd import overhead
from simulators.speed import overhead as measuring
from simulators.speed.overhead import Overhead

ROUND = Overhead(40, 5, 120.0, 45.0, 38.0, 210.0, 30.0, 91_000.0, 20_000.0, 60_000.0)


@pytest.fixture
def call(monkeypatch):
    def call(measured, *words):
        def bench(*_, signed=False):
            return replace(measured, round_ms=measured.round_ms + 9 * signed)

        monkeypatch.setattr(measuring, "bench_overhead", bench)
        return CliRunner().invoke(overhead, words)

    return call


def test_overhead_is_the_round_less_its_training(call):
    figures = {line[:50].strip(): line[50:].strip() for line in call(ROUND).stdout.splitlines()[1:]}
    assert figures["overhead"] == "75 ms"
    assert figures["on the loopback interface in a round"] == "91,000 B"
    assert json.loads(call(ROUND, "--json").stdout)["overhead_ms"] == 75.0


def test_where_the_interface_cannot_be_read_it_says_so(call):
    assert "not known" in call(replace(ROUND, loopback_bytes=None)).stdout


def test_with_signatures_both_are_run_in_turn_and_compared(call):
    lines = call(ROUND, "--signed", "--runs", "2").stdout.splitlines()
    row = next(line for line in lines if line.startswith("overhead of a round"))
    assert row.split()[-3:] == ["75.0", "84.0", "+9.0"]
    both = json.loads(call(ROUND, "--signed", "--runs", "2", "--json").stdout)
    assert [len(rows) for rows in both.values()] == [2, 2]
