"""`protofleet simulate`: one document on stdout, progress on stderr, and wrong words refused."""

import json

import pytest
from click.testing import CliRunner

from protofleet.errors import DataError, FleetError, UsageError
from simulators.cli.simulate_cmd import simulate

QUICK = ["--agents", "3", "--rounds", "2"]


def call(*words, **environment):
    return CliRunner().invoke(simulate, words, env={"PROTOFLEET_DATA": None, **environment})


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        (["--method", "fedprotto"], UsageError, "did you mean 'fedproto'"),
        (["--method", "fedproto", "--set", "lamb=1"], UsageError, "did you mean 'lam'"),
        (["--rounds", "0"], UsageError, "rounds: 0 is not within"),
        (["--dataset", "mnist"], DataError, "PROTOFLEET_DATA"),
        (["--dataset", "/nowhere/at/all"], DataError, "/nowhere/at/all"),
        (["--backbone", "lenett"], UsageError, "lenet"),
        (["--device", "cuda:9"], UsageError, "cuda"),
        (["--resume"], UsageError, "--out"),
        (["--weights", "/nowhere.pt"], FleetError, "/nowhere.pt"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(words, error, says):
    failure = call(*words).exception
    assert isinstance(failure, error)
    assert says in str(failure)
    assert "\n" not in str(failure)
    assert failure.exit_code == (2 if error is UsageError else 1)


def test_json_is_one_document_on_stdout_and_progress_is_on_stderr():
    run = call(*QUICK, "--json")
    result = json.loads(run.stdout)
    assert [row["round"] for row in result["rounds"]] == [1, 2]
    assert "round 2/2" in run.stderr
    assert result["config"]["contract"]["numerics"]["threads"] == 1


def test_what_is_said_to_be_left_is_there(tmp_path):
    run = call(*QUICK, "--out", str(tmp_path))
    first, second, *_, state, left = run.stdout.splitlines()
    result = json.loads((tmp_path / "result.json").read_text())
    assert state == f"state {result['state_sha256']}"
    assert first == "fleet on digits: 3 devices, images of 8 × 8 × 1, fixed"
    share = result["final"]["common"]["prototype"]
    assert second.endswith(f" {100 * share:.2f} % of one test set")
    names = left.removeprefix(f"left in {tmp_path}: ").split(", ")
    assert names
    assert all((tmp_path / name).stat().st_size for name in names)
    longer = call("--agents", "3", "--rounds", "3", "--out", str(tmp_path), "--resume", "--json")
    assert len(json.loads(longer.stdout)["rounds"]) == 3


def test_a_folder_that_holds_a_fleet_s_run_is_left_alone(tmp_path):
    (tmp_path / "coordinator-data").mkdir()
    failure = call(*QUICK, "--engine", "fleet", "--out", str(tmp_path)).exception
    assert isinstance(failure, UsageError)
    assert [path.name for path in tmp_path.iterdir()] == ["coordinator-data"]
