"""The laboratory on a real cluster of two nodes, as docs/lab.md has it: the states of one process,
whoever dies.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from protofleet.errors import UsageError
from simulators.cluster.engine import Cluster, engine
from simulators.run.workers import Local
from tests.simulators.cluster.conftest import PATIENCE, until

SMALL = ["--agents", "5", "--alpha", "0.3", "--lr", "0.03", "--seed", "1"]
LONG = ["simulate", "--method", "fedproto", *SMALL, "--rounds", "60", "--checkpoint-every", "4"]


def told(words):
    """What a command of the laboratory says here, in processes of this machine."""
    run = subprocess.run(
        [sys.executable, "-m", "protofleet", *words],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


@pytest.fixture(scope="module")
def plain_state():
    return json.loads(told([*LONG, "--json"]))["state_sha256"]


def test_seeds_and_methods_side_by_side_end_in_the_states_of_one_process(two_nodes):
    words = ["compare", "--methods", "fedavg,mpfedcl", "--seeds", "2", *SMALL, "--rounds", "2"]
    here = json.loads(told([*words, "--json"]))
    pipe = subprocess.PIPE
    out, err = two_nodes.lab(*words, "--json", stdout=pipe, stderr=pipe).communicate()
    there = json.loads(out)
    assert list(there) == list(here), err
    for method, runs in here.items():
        assert [r["state_sha256"] for r in there[method]] == [r["state_sha256"] for r in runs]
    # A line each: there are several, and none has the terminal for itself.
    assert sum("round 2/2" in line for line in err.splitlines()) == 4


def test_a_worker_and_then_a_node_are_killed_and_nobody_notices(two_nodes, plain_state, tmp_path):
    errors = tmp_path / "stderr"
    with errors.open("w") as stderr:
        words = [*LONG, "--json", "--out", str(tmp_path / "out")]
        command = two_nodes.lab(*words, stdout=subprocess.PIPE, stderr=stderr)
    until(lambda: "round 6/60" in errors.read_text(), "six rounds")
    two_nodes.kill(0, "ray::ClusterSeat")
    until(lambda: errors.read_text().count("a worker of the cluster was lost") == 1, "the loss")
    until(lambda: "round 18/60" in errors.read_text(), "further rounds")
    two_nodes.kill(1, "raylet")
    out, _ = command.communicate(timeout=PATIENCE)
    assert command.returncode == 0, errors.read_text()
    document = json.loads(out)  # of Ray's own pages nothing
    assert document["state_sha256"] == plain_state
    assert errors.read_text().count("a worker of the cluster was lost") >= 2
    two_nodes.stop()
    two_nodes.head()


def test_a_head_is_killed_and_a_run_goes_on_with_the_next(two_nodes, plain_state, tmp_path):
    errors, folder = tmp_path / "stderr", tmp_path / "out"
    words = [*LONG, "--out", str(folder)]
    for part in ("gcs_server", "raylet"):
        again = ["--resume"] if folder.exists() else []
        with errors.open("w") as stderr:
            command = two_nodes.lab(*words, *again, stdout=subprocess.DEVNULL, stderr=stderr)
        before = sorted(folder.glob("checkpoint-*"))
        until(lambda b=before: sorted(folder.glob("checkpoint-*")) != b, "a checkpoint")
        two_nodes.kill(0, part)
        assert command.wait(PATIENCE) == 1
        # The witness says it, who outlives the command.
        (line,) = until(lambda: [x for x in errors.read_text().splitlines() if "error" in x], "why")
        assert "gone; --resume goes on with what is in --out (cluster-lost)" in line
        two_nodes.stop()
        two_nodes.head()
    pipe = subprocess.PIPE
    command = two_nodes.lab(*words, "--resume", "--json", stdout=pipe, stderr=pipe)
    out, err = command.communicate(timeout=PATIENCE)
    assert json.loads(out)["state_sha256"] == plain_state, err


def test_whoever_has_another_token_is_told_so_in_one_line(two_nodes):
    known = two_nodes.environment
    two_nodes.environment = {**known, "RAY_AUTH_TOKEN": "0" * 64}
    pipe = subprocess.PIPE
    _, err = two_nodes.lab(*LONG, stdout=pipe, stderr=pipe).communicate()
    two_nodes.environment = known
    (line,) = [line for line in err.splitlines() if line.startswith("error")]
    assert "its token is to be known here, too" in line


def test_without_an_address_a_cluster_begins_and_ends_with_the_command(two_nodes):
    words = ["simulate", *SMALL, "--rounds", "1", "--json"]
    words = ["-m", "protofleet", *words, "--engine", "ray", "--workers", "2"]
    pipe = subprocess.PIPE
    command = two_nodes.begin(words, text=True, stdout=pipe, stderr=pipe)
    out, err = command.communicate()
    here = json.loads(told(["simulate", *SMALL, "--rounds", "1", "--json"]))
    assert json.loads(out)["state_sha256"] == here["state_sha256"], err


def test_an_address_is_ray_s_alone():
    with pytest.raises(UsageError, match="--engine ray"), engine("lab", address="auto"):
        pass
    with engine("lab", 3) as where:
        assert where == Local(3)


@pytest.mark.parametrize(
    ("cores", "workers", "runs", "at_once", "each"),
    [(8, None, 3, 3, 2), (2, None, 5, 2, 1), (8, 4, 5, 2, 4), (8, None, 1, 1, 8), (2, 4, 2, 1, 2)],
)
def test_cores_are_shared_out_evenly(cores, workers, runs, at_once, each):
    class ClusterHead:
        """What dealing runs out asks for."""

        from simulators.cluster.baton import Baton

        baton = Baton()

    whole = Cluster(ClusterHead(), cores, 0, workers)  # type: ignore[arg-type]
    shares = list(whole.each([lambda share: share] * runs))
    assert {share.cores for share in shares} == {each}
    assert {share.beside for share in shares} == {at_once > 1}


def test_a_run_that_fails_ends_those_beside_it_and_is_the_one_that_is_named():
    class ClusterHead:
        """As above."""

        from simulators.cluster.baton import Baton

        baton = Baton()

    def endless(share):
        while True:
            with share.head.baton.away():
                pass
            share.head.baton.go_on()

    def failing(share):
        raise UsageError("this one")

    with pytest.raises(UsageError, match="this one"):
        list(Cluster(ClusterHead(), 4, 0).each([endless, failing, endless]))  # type: ignore[arg-type]
