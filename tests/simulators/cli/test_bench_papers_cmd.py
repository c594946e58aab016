"""`protofleet bench papers`: cells by name, what there is to run, a page of what is there, and
failures at the end.
"""

import json

import pytest
from click.testing import CliRunner

from protofleet.errors import DataError, FleetError, UsageError
from simulators.cli.bench_papers_cmd import papers
from simulators.papers import cell, plan


@pytest.fixture
def ran(monkeypatch):
    """Which seeds were run; those of GFPL fail."""
    names = []

    def run_seed(cell, seed, *_, **__):
        names.append(f"{cell.name} {seed}")
        if cell.name.startswith("gfpl"):
            raise DataError("no data")
        return seed != 2

    monkeypatch.setattr(cell, "run_seed", run_seed)
    return names


@pytest.fixture
def where(tmp_path):
    return ["--out", str(tmp_path / "runs"), "--records", str(tmp_path / "records")]


def test_a_cell_that_does_not_exist_is_answered_with_the_nearest(ran):
    failure = CliRunner().invoke(papers, ["--only", "fedprot-cifar"]).exception
    assert isinstance(failure, UsageError)
    assert "nearest: fedproto-cifar10" in str(failure)
    assert "--list names all" in str(failure)
    assert not ran


def test_the_list_says_what_there_is_to_run_and_runs_nothing(ran, where, tmp_path):
    records = tmp_path / "records"
    plan.write_times(records, {"fedmps-cifar10": 3.0})
    (records / "fedmps-high").mkdir()
    other = {"format": 1, "config": {"run": {"method": "fedmps"}}, "rounds": 1}
    (records / "fedmps-high" / "0.json").write_text(json.dumps(other))
    text = CliRunner().invoke(papers, ["--list", *where]).stdout
    lines = text.splitlines()
    assert lines[0] == "33 figures of the papers' main tables, most an hour first (one seed)"
    (line,) = (line for line in lines[1:34] if line[6:].startswith("fedmps-cifar10 "))
    assert " ".join(line.split()[1:8]) == "fedmps-cifar10 FedMPS, table III 80.14 0.42 h"
    assert any("fedmps-all" in line and "by fedmps-cifar10" in line for line in lines[1:34])
    assert "MP-FedCL" in lines
    (line,) = (line for line in lines if line.startswith("  fedmps-cifar10 "))
    assert line.split() == ["fedmps-cifar10", "80.14", "25", "min", "a", "seed", "not", "run"]
    assert "records of other settings, ignored: fedmps-high/0" in text
    assert lines[-1].endswith("of one process")
    assert not ran
    few = CliRunner().invoke(papers, ["--list", "--only", "speed-*", *where]).stdout
    assert len([line for line in few.splitlines() if line.startswith("  ")]) == 5


def test_page_only_runs_nothing_and_writes_the_page(ran, tmp_path, where):
    target = tmp_path / "docs" / "results.md"
    run = CliRunner().invoke(papers, ["--page-only", *where, "--write", str(target)])
    assert run.stdout == f"written: {target}\n"
    assert target.read_text().startswith("# Results\n")
    assert "not run yet on lossless images" in target.read_text()
    assert (tmp_path / "docs" / "images" / "results" / "figures.png").exists()
    assert not ran


def test_seeds_are_run_in_order_with_what_is_left(ran, where, tmp_path):
    plan.write_times(tmp_path / "records", {"fedmps-cifar10": 3.0})
    run = CliRunner().invoke(papers, ["--only", "fedmps-cifar10", *where])
    assert ran == [f"fedmps-cifar10 {seed}" for seed in range(3)]
    words = "[1/3] FedMPS, CIFAR-10: fedmps-cifar10 seed 0 (about 25 min, 75 min to go"
    assert words in run.stderr
    assert "fedmps-cifar10 seed 2: another process is at it" in run.stderr


def test_the_page_is_there_after_every_seed(ran, where, tmp_path, monkeypatch):
    target, seen = tmp_path / "page" / "results.md", []
    run = cell.run_seed

    def run_seed(*words, **more):
        seen.append(target.exists())
        return run(*words, **more)

    monkeypatch.setattr(cell, "run_seed", run_seed)
    words = ["--only", "fedmps-cifar10", *where, "--write", str(target)]
    assert CliRunner().invoke(papers, words).stdout == f"written: {target}\n"
    assert seen == [False, True, True]


def test_a_cell_that_fails_stops_no_other(ran, where):
    words = ["--only", "gfpl-mnist-3", "--only", "fedmps-fashion", "--seeds", "1", *where]
    failure = CliRunner().invoke(papers, words).exception
    assert sorted(ran) == ["fedmps-fashion 0", "gfpl-mnist-3 0"]
    assert isinstance(failure, FleetError)
    assert str(failure).endswith(": gfpl-mnist-3 seed 0")


def test_one_cell_of_a_kind_is_timed(monkeypatch, where, tmp_path):
    timed = []

    def measure(cell):
        timed.append(cell.name)
        return 1.5

    monkeypatch.setattr(plan, "measure", measure)
    words = ["--measure", "--only", "mpfedcl-mnist*", "--only", "mpfedcl-k3", *where]
    assert CliRunner().invoke(papers, words).exit_code == 0
    assert timed == ["mpfedcl-mnist"]
    assert json.loads((tmp_path / "records" / plan.TIMES).read_text()) == {"mpfedcl-mnist": 1.5}
    CliRunner().invoke(papers, words)
    assert timed == ["mpfedcl-mnist"]


def test_the_smallest_of_a_kind_is_timed(monkeypatch, where):
    timed = []

    def measure(cell):
        timed.append(cell.name)
        return 1.5

    monkeypatch.setattr(plan, "measure", measure)
    words = ["--only", "fedic-fashion-2", "--only", "speed-cnn4-bf16", *where]
    assert CliRunner().invoke(papers, ["--measure", *words]).exit_code == 0
    assert timed == ["speed-cnn4-bf16"]
    listed = CliRunner().invoke(papers, ["--list", *words]).stdout
    (line,) = (line for line in listed.splitlines() if line.startswith("  fedic-fashion-2"))
    # 800 rounds of seven times the images.
    assert "2.3 h a seed" in line
