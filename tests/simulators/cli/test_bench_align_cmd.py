"""`protofleet bench align` prints what was measured."""

import json

import pytest
from click.testing import CliRunner

from simulators.cli.bench_align_cmd import align
from simulators.speed import align as measuring
from simulators.speed.align import AlignRow


@pytest.fixture
def rows(monkeypatch):
    rows = [AlignRow("alignment", 1200.0, 4.0, 1e-12, "in blocks"), AlignRow("D", 3.0, 1.5, 0.0)]
    monkeypatch.setattr(measuring, "bench_align", lambda repeats: rows)
    return rows


def test_the_ratio_is_how_many_times_as_fast_ours_is(rows):
    one, other = CliRunner().invoke(align).stdout.splitlines()[2:]
    assert one.split() == ["alignment", "1,200.00", "4.000", "300.0", "1.0e-12", "in", "blocks"]
    assert other.split() == ["D", "3.00", "1.500", "2.0", "0.0e+00"]


def test_programs_get_the_same_figures(rows):
    plain = json.loads(CliRunner().invoke(align, ["--json"]).stdout)
    assert [row["ratio"] for row in plain] == [300.0, 2.0]
