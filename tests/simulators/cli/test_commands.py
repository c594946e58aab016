"""The commands as a person or a program meets them: words, exit codes, one document on stdout."""

import json
import subprocess
import sys

import pytest

QUICK = ["--agents", "3", "--rounds", "2"]


def call(*words, command="protofleet.cli", **environment):
    code = f"from {command} import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["simulate", "--method", "fedprotto"], 2, "did you mean 'fedproto'"),
        (["simulate", "--set", "lamb=1"], 2, "did you mean 'lam'"),
        (["simulate", "--rounds", "many"], 2, "not a valid integer"),
        (["simulate", "--rounds", "0"], 2, "rounds: 0 is not within"),
        (["simulate", "--nonsense"], 2, "--nonsense"),
        (["simulate", "--dataset", "mnist"], 1, "PROTOFLEET_DATA"),
        (["simulate", "--dataset", "/nowhere/at/all"], 1, "/nowhere/at/all"),
        (["simulate", "--backbone", "lenett"], 2, "lenet"),
        (["simulate", "--device", "cuda:9"], 2, "cuda"),
        (["simulate", "--resume"], 2, "--out"),
        (["simulate", "--weights", "/nowhere.pt"], 1, "/nowhere.pt"),
        (["compare", "--methods", "fedavg,fedproto", "--set", "mu=1"], 2, "'mu'"),
        (["sweep", "--grid", "lam", "--out", "unused"], 2, "name=a,b,c"),
        (["bench", "papers", "--only", "fedprot"], 2, "fedproto-cifar10"),
        (["nothing"], 2, "nothing"),
        (["inspect", "/nowhere"], 2, "/nowhere"),
    ],
)
def test_a_wrong_call_is_one_line_and_its_exit_code(words, code, says):
    run = call(*words)
    assert run.returncode == code, run.stderr
    assert says in run.stderr
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1
    assert not run.stdout


def test_a_traceback_is_shown_only_when_asked_for():
    assert "Traceback" in call("simulate", "--method", "x", "--debug").stderr


@pytest.mark.parametrize(
    "command", ["", "simulate", "compare", "sweep", "demo", "bench", "methods", "inspect"]
)
def test_help_teaches(command):
    run = call(*command.split(), "--help")
    assert run.returncode == 0
    assert "Usage: protofleet" in run.stdout


@pytest.mark.parametrize("name", ["edge_agent.cli", "coordinator.cli"])
def test_the_other_commands_answer(name):
    assert call("--help", command=name).returncode == 0


def test_json_is_one_document_on_stdout_and_progress_is_on_stderr():
    run = call("simulate", *QUICK, "--json")
    result = json.loads(run.stdout)
    assert [row["round"] for row in result["rounds"]] == [1, 2]
    assert "round 2/2" in run.stderr
    assert result["config"]["contract"]["numerics"]["threads"] == 1


def test_the_result_is_inspected_compared_and_swept(tmp_path):
    assert call("simulate", *QUICK, "--out", str(tmp_path / "run")).returncode == 0
    seen = call("inspect", str(tmp_path / "run" / "state.cbor"))
    assert "prototypes" in seen.stdout, seen.stderr
    table = call("compare", "--methods", "local,fedproto", *QUICK, "--out", str(tmp_path / "both"))
    assert "fedproto" in table.stdout, table.stderr
    assert (tmp_path / "both" / "compare.png").exists()
    words = [
        "sweep",
        "--grid",
        "lam=0.1,1",
        "--grid",
        "seed=1",
        *QUICK,
        "--out",
        str(tmp_path / "sweep"),
        "--json",
    ]
    first, again = call(*words), call(*words)
    assert json.loads(first.stdout) == json.loads(again.stdout), first.stderr
    assert "round" not in again.stderr
    assert set(json.loads(first.stdout)) == {"lam=0.1 seed=1", "lam=1 seed=1"}


def test_methods_are_listed_and_shown():
    assert "fedproto" in call("methods").stdout
    shown = json.loads(call("methods", "show", "fedproto", "--json").stdout)
    assert shown["settings"][0]["name"] == "lam"


def test_a_bench_run_that_fails_stops_no_other_and_is_named_at_the_end(tmp_path):
    run = call("bench", "bytes", "--only", "local", "--only", "fedproto", "--out", str(tmp_path))
    assert run.returncode == 1
    for name in ("fashion local", "cifar10 local", "fashion fedproto", "cifar10 fedproto"):
        assert f"\n{name}: " in run.stderr
    assert "error: these runs failed" in run.stderr
    assert "PROTOFLEET_DATA" in run.stderr
