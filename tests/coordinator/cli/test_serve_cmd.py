"""`coordinator serve` as people run it: a process, a real broker, and one clear line for each thing
that is wrong.
"""

import json
import subprocess
import sys
import time

import pytest

from coordinator.service.control import ask
from protofleet.errors import FleetError
from protofleet.mqtt.broker.run import running_broker

CONTRACT = """
[contract]
classes = ["apple", "pear"]
embedding = 4
[contract.input]
kind = "vector"
shape = [4]
"""


@pytest.fixture
def broker(tmp_path):
    with running_broker(tmp_path / "broker", users={"coordinator": "secret"}) as running:
        yield running


def command(folder, *words):
    (folder / "fleet.toml").write_text(CONTRACT)
    return [sys.executable, "-m", "coordinator", *words]


def says(folder, *words, code=None):
    done = subprocess.run(
        command(folder, *words),
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert code is None or done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def serving(tmp_path, broker):
    """A coordinator, up and connected."""
    url = f"mqtt://coordinator:secret@127.0.0.1:{broker.address.port}"
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        command(tmp_path, "serve", "--broker", url, "--data-dir", "data"),
        cwd=tmp_path,
        stdout=log,
        stderr=log,
    )
    until = time.monotonic() + 40
    while time.monotonic() < until:
        try:
            if ask(tmp_path / "data", "status")["connected"]:
                break
        except FleetError:
            assert process.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.1)
    yield process, url
    process.terminate()
    process.wait(timeout=20)
    log.close()


def test_it_answers_operators_and_stops_when_told(tmp_path, serving):
    process, _ = serving
    found = json.loads(says(tmp_path, "status", "--data-dir", "data", "--json", code=0))
    assert (found["fleet"], found["method"], found["phase"], found["round"]) == (
        "fleet",
        "fleet",
        "waiting",
        0,
    )
    assert "paused: True" in says(tmp_path, "pause", "--data-dir", "data", code=0)
    assert "paused" in says(tmp_path, "status", "--data-dir", "data", code=0)
    says(tmp_path, "resume", "--data-dir", "data", code=0)
    assert json.loads(says(tmp_path, "agents", "--data-dir", "data", "--json", code=0)) == {
        "agents": []
    }
    assert "round 7 was not opened" in says(tmp_path, "show", "7", "--data-dir", "data", code=1)
    says(tmp_path, "backup", "data", "copy.db", code=0)
    assert (tmp_path / "copy.db").exists()
    says(tmp_path, "stop", "--data-dir", "data", code=0)
    assert process.wait(timeout=20) == 0
    assert "1 of 1 states" in says(tmp_path, "replay", "data", code=0)
    assert "no coordinator answers" in says(tmp_path, "status", "--data-dir", "data", code=4)


def test_a_second_one_is_refused(tmp_path, serving):
    _, url = serving
    assert "in use by another coordinator" in says(
        tmp_path, "serve", "--broker", url, "--data-dir", "data", code=1
    )
    words = says(tmp_path, "serve", "--broker", url, "--data-dir", "other", code=4)
    assert "a coordinator serves fleet fleet already" in words
    assert "--take-over" in words


def test_the_one_that_is_overtaken_stops_and_says_why(tmp_path, serving):
    process, url = serving
    other = subprocess.Popen(
        command(tmp_path, "serve", "--broker", url, "--data-dir", "other", "--take-over"),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.wait(timeout=30) == 4
        assert "another coordinator serves fleet fleet (epoch 2" in (tmp_path / "log").read_text()
    finally:
        other.terminate()
        assert other.wait(timeout=20) == 0


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("serve", "--method", "fedprot"), 2, "fedproto"),
        (("serve", "--mode", "async", "--method", "fedic"), 2, "cannot fuse uploads as they come"),
        (("serve", "--quorum", "3"), 2, "serve.quorum"),
        (("serve", "--broker", "http://x"), 2, "scheme 'http' is not known"),
        (("serve", "--set", "ridg=1"), 2, "did you mean 'ridge'"),
        (("serve", "--config", "none.toml"), 2, "none.toml"),
        (("replay", "nowhere"), 1, "holds no journal"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, words, code, line):
    said = says(tmp_path, *words, code=code)
    assert line in said
    assert said.strip().count("\n") == 0


def test_a_file_that_is_no_settings_is_said_in_one_line(tmp_path):
    for text, line in (("serve = 3\n", "serve: a map is due"), ("[serve\n", "not TOML")):
        (tmp_path / "other.toml").write_text(text)
        said = says(tmp_path, "serve", "--config", "other.toml", code=2)
        assert line in said
        assert said.strip().count("\n") == 0


def test_a_password_that_is_wrong_ends_it_with_one_line_and_is_not_shown(tmp_path, broker):
    url = f"mqtt://coordinator:wr0ng@127.0.0.1:{broker.address.port}"
    said = says(tmp_path, "serve", "--broker", url, "--data-dir", "data", code=1)
    assert "refuses the coordinator" in said
    assert "wr0ng" not in said


def test_init_writes_what_serve_reads(tmp_path):
    from coordinator.config import as_toml, load

    (tmp_path / "fleet.toml").write_text(
        as_toml()
        .replace("classes = []", 'classes = ["a"]')
        .replace(
            "[contract.training]",
            '[contract.input]\nkind = "vector"\nshape = [4]\n\n[contract.training]',
        )
    )
    plan = load(
        tmp_path / "fleet.toml", {"PROTOFLEET_SERVE_ROUNDS": "7"}, {"serve": {"min_agents": "2"}}
    )
    assert (plan.serve.rounds, plan.serve.min_agents, plan.serve.quorum) == (7, 2, 0.8)
