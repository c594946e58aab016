"""`protofleet bench papers`: cells by name, a page of what is there, and failures at the end."""

import pytest
from click.testing import CliRunner

from protofleet.errors import DataError, FleetError, UsageError
from simulators.cli.bench_papers_cmd import papers
from simulators.papers import cell


@pytest.fixture
def ran(monkeypatch):
    """Which cells were run; those of GFPL fail."""
    names = []

    def run_cell(cell, *_):
        names.append(cell.name)
        if cell.name.startswith("gfpl"):
            raise DataError("no data")

    monkeypatch.setattr(cell, "run_cell", run_cell)
    return names


def test_a_cell_that_does_not_exist_is_refused_with_those_there_are(ran):
    failure = CliRunner().invoke(papers, ["--only", "fedprot"]).exception
    assert isinstance(failure, UsageError)
    assert "fedproto-cifar10" in str(failure)
    assert not ran


def test_page_only_runs_nothing_and_writes_the_page(ran, tmp_path):
    target = tmp_path / "docs" / "results.md"
    words = ["--page-only", "--out", str(tmp_path / "runs"), "--write", str(target)]
    run = CliRunner().invoke(papers, words)
    assert run.stdout == f"written: {target}\n"
    assert target.read_text().startswith("# Results\n")
    assert "Cells with runs still to be made: fedmps-fashion, " in target.read_text()
    assert not ran


def test_a_cell_that_fails_stops_no_other(ran, tmp_path):
    words = ["--only", "gfpl-mnist-3", "--only", "fedmps-fashion", "--out", str(tmp_path)]
    failure = CliRunner().invoke(papers, words).exception
    assert sorted(ran) == ["fedmps-fashion", "gfpl-mnist-3"]
    assert isinstance(failure, FleetError)
    assert str(failure).endswith(": gfpl-mnist-3")
