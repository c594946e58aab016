"""`protofleet sweep`: the product of its axes, and only what is not there yet."""

import json

import pytest
from click.testing import CliRunner

from protofleet.errors import UsageError
from simulators.cli.sweep_cmd import sweep

QUICK = ["--agents", "3", "--rounds", "1"]


def call(*words):
    return CliRunner().invoke(sweep, [*words, *QUICK])


def test_every_point_of_the_grid_is_run_once(tmp_path):
    words = ["--method", "fedproto", "--grid", "lam=0.1,1", "--grid", "seed=1"]
    words += ["--out", str(tmp_path), "--json"]
    first, again = call(*words), call(*words)
    points = json.loads(first.stdout)
    assert set(points) == {"lam=0.1 seed=1", "lam=1 seed=1"}
    assert json.loads(again.stdout) == points
    assert not again.stderr  # nothing was run
    config = points["lam=0.1 seed=1"]["config"]
    assert (config["settings"]["lam"], config["seed"]) == (0.1, 1)


def test_an_option_of_any_section_is_an_axis(tmp_path):
    grid = ["--grid", "batch-size=4", "--grid", "alpha=0.7"]
    (config,) = (
        p["config"]
        for p in json.loads(call(*grid, "--out", str(tmp_path), "--json").stdout).values()
    )
    assert config["contract"]["training"]["batch_size"] == 4
    assert config["partition_options"]["alpha"] == 0.7


@pytest.mark.parametrize("axis", ["lam", "lam=", "=1,2"])
def test_an_axis_without_values_is_refused(axis, tmp_path):
    run = call("--grid", axis, "--out", str(tmp_path))
    assert isinstance(run.exception, UsageError)


def test_seeds_are_for_means_and_no_axis(tmp_path):
    run = call("--grid", "seed=1,2", "--out", str(tmp_path))
    assert isinstance(run.exception, UsageError)
    assert "--seeds 5" in str(run.exception)
    assert not list(tmp_path.iterdir())
