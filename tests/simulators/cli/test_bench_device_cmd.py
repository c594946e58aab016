"""`protofleet bench device` measures the tables that were asked for and no other."""

import json

import pytest
from click.testing import CliRunner

from simulators.cli.bench_device_cmd import device
from simulators.speed import device as bundles
from simulators.speed import device_process as process


@pytest.fixture
def measured(monkeypatch):
    """Which tables were measured, in order."""
    tables = []

    def note(name, rows):
        return lambda *_: tables.append(name) or rows

    monkeypatch.setattr(bundles, "costs", note("cost", [bundles.Ratio("swap", 1.0, 4.0, "≤ 0.5")]))
    monkeypatch.setattr(
        process, "processes", note("process", [process.Process("torch, a network", 200.0, 2.0)])
    )
    monkeypatch.setattr(
        bundles, "agree", note("agree", [bundles.TorchAgreement("lenet", 9, 1e-6, 2e-6, True)])
    )
    return tables


def test_all_three_by_default(measured):
    document = json.loads(CliRunner().invoke(device, ["--json"]).stdout)
    assert measured == list(document) == ["cost", "process", "agree"]
    assert document["cost"][0]["ratio"] == 0.25


@pytest.mark.parametrize("only", ["cost", "process", "agree"])
def test_only_one_where_one_is_asked_for(measured, only):
    run = CliRunner().invoke(device, ["--only", only])
    assert measured == [only]
    assert {"cost": "0.2500", "process": "200.0", "agree": "all of 9"}[only] in run.stdout
