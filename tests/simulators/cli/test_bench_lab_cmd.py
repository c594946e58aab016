"""`protofleet bench lab`: ratios to one contender of the same run."""

import json

import pytest
from click.testing import CliRunner

from protofleet.errors import UsageError
from simulators.cli.bench_lab_cmd import lab
from simulators.scale import clustered
from simulators.scale.clustered import Contest, WholeRun
from simulators.speed import lab as measuring
from simulators.speed.lab import Timed


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    """Which tables were measured, and over how many rounds."""
    calls = []
    bases = {
        "cifar": "in-memory loop",
        "fedmps": "in-memory loop",
        "fashion": "DataLoader way",
        "workers": "ours, 1 worker",
    }
    for name, base in bases.items():

        def bench(rounds, tell, name=name, base=base):
            calls.append((name, rounds))
            return [Timed("ours", 0.5, 0.75), Timed(base, 2.0, None)]

        monkeypatch.setattr(measuring, f"bench_{name}", bench)
    return calls


def test_every_table_is_relative_to_its_own_base(tables):
    run = CliRunner().invoke(lab, ["--rounds", "3"])
    assert tables == [("cifar", 3), ("fedmps", 3), ("fashion", 3), ("workers", 3)]
    rows = [line.split() for line in run.stdout.splitlines() if line.startswith("ours ")]
    assert rows == [["ours", "0.500", "0.25", "4.00", "75.0", "%"]] * 4
    assert run.stdout.count("ratio: seconds over those of in-memory loop") == 2


def test_one_table_alone_for_programs(tables):
    document = json.loads(CliRunner().invoke(lab, ["--only", "workers", "--json"]).stdout)
    assert list(document) == ["workers"]
    assert document["workers"][1] == {"name": "ours, 1 worker", "seconds": 2.0, "accuracy": None}


def test_on_a_cluster_whole_runs_stand_beside_one_process(monkeypatch):
    asked = []

    def measure(config, contests, tell):
        asked.append((config.run.agents, contests))
        alone = WholeRun("one process", 60.0, "a" * 64, 0.5, 500_000_000, 1)
        return [alone, WholeRun("ray, 2 workers, 2 nodes", 30.0, "a" * 64, 0.5, 10**9, 12)]

    monkeypatch.setattr(clustered, "measure", measure)
    words = ["--engine", "ray", "--address", "auto"]
    text = CliRunner().invoke(lab, words).stdout
    one, all_cores = Contest("ray", 1, "auto"), Contest("ray", None, "auto")
    here = Contest("lab")
    assert asked == [(20, (here, one, all_cores)), (1000, (here, all_cores))]
    (row, _) = (line.split() for line in text.splitlines() if line.startswith("ray, "))
    assert row[5:] == ["30.0", "2.00", "1000", "12", "a" * 16]
    assert text.count("the same state; MB") == 2
    document = json.loads(CliRunner().invoke(lab, [*words, "--only", "minute", "--json"]).stdout)
    assert [run["seconds"] for run in document["minute"]] == [60.0, 30.0]


@pytest.mark.parametrize("words", [["--only", "minute"], ["--only", "cifar", "--engine", "ray"]])
def test_a_table_is_asked_of_the_engine_that_has_it(words):
    failure = CliRunner().invoke(lab, words).exception
    assert isinstance(failure, UsageError)
