"""`protofleet bench lab`: ratios to one contender of the same run."""

import json

import pytest
from click.testing import CliRunner

from simulators.cli.bench_lab_cmd import lab
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
