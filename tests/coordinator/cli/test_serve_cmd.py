"""`coordinator serve` as people run it: a process, a real broker, and one clear line for each thing
that is wrong.
"""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

from coordinator.cli import coordinator
from coordinator.config import load
from coordinator.journal.journal import Journal
from coordinator.service.control import ask
from protofleet.errors import FleetError
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.broker.run import running_broker
from protofleet.values.prototypes import Prototypes
from tests.coordinator.made import packed_bundle
from tests.linking import eventually

CONTRACT = """
[contract]
extractor = "eye.pfb"
"""
EYE = Bank(About("extractor:eye", ()), Prototypes([], np.zeros((0, 4))))


@pytest.fixture
def broker(tmp_path):
    with running_broker(tmp_path / "broker", users={"coordinator": "secret"}) as running:
        yield running


def command(folder, *words):
    (folder / "fleet.toml").write_text(CONTRACT)
    packed_bundle(folder / "eye.pfb", EYE, input={"kind": "image", "shape": [8, 8, 1]})
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
        "ledger",
        0,
    )
    assert "paused: True" in says(tmp_path, "pause", "--data-dir", "data", code=0)
    assert "extractor:eye" in says(tmp_path, "status", "--data-dir", "data", code=0)
    says(tmp_path, "resume", "--data-dir", "data", code=0)
    assert json.loads(says(tmp_path, "agents", "--data-dir", "data", "--json", code=0)) == {
        "agents": []
    }
    assert "round 7 was not opened" in says(tmp_path, "show", "7", "--data-dir", "data", code=1)
    says(tmp_path, "backup", "data", "copy.db", code=0)
    assert (tmp_path / "copy.db").exists()
    assert says(tmp_path, "stop", "--data-dir", "data", code=0) == "stopped\n"
    Journal(tmp_path / "data", lambda: 0.0).close()  # it is free as soon as that is said
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
        (("serve", "--set", "rang=1"), 2, "did you mean 'rank'"),
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
    from coordinator.config import as_toml

    (tmp_path / "fleet.toml").write_text(as_toml() + CONTRACT)
    plan = load(
        tmp_path / "fleet.toml", {"PROTOFLEET_SERVE_ROUNDS": "7"}, {"serve": {"min_agents": "2"}}
    )
    assert (plan.serve.rounds, plan.serve.min_agents, plan.serve.quorum) == (7, 2, 0.8)


def test_its_files_are_its_owner_s_alone_whatever_the_umask(tmp_path, broker):
    url = f"mqtt://coordinator:secret@127.0.0.1:{broker.address.port}"
    words = command(tmp_path, "serve", "--broker", url, "--data-dir", "new/data")
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, umask=0) as process:
        eventually(lambda: answers(tmp_path / "new" / "data"))
        folder = tmp_path / "new" / "data"
        ask(folder, "backup", target=str(folder / "copy.db"))
        modes = {path.name: path.stat().st_mode for path in [folder, *folder.rglob("*")]}
        process.terminate()
        log = process.stderr.read().decode()
    assert modes.keys() >= {"data", "journal.db", "journal.db-wal", "lock", "spool", "copy.db"}
    assert [name for name, mode in modes.items() if mode & 0o077] == []
    assert "open to other users" not in log


def test_an_open_directory_of_an_earlier_release_is_said_and_its_files_are_closed(tmp_path, broker):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    Journal(folder, lambda: 0.0).close()
    (folder / "bodies-1").write_text("an upload")
    for name in ("journal.db", "bodies-1", "lock"):
        (folder / name).chmod(0o644)
    url = f"mqtt://coordinator:secret@127.0.0.1:{broker.address.port}"
    words = command(tmp_path, "serve", "--broker", url, "--data-dir", "data")
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        eventually(lambda: answers(folder))
        process.terminate()
        log = process.stderr.read().decode()
    assert log.count("is open to other users of this machine (mode 0755)") == 1
    assert [p.name for p in folder.iterdir() if p.stat().st_mode & 0o077] == []


def test_the_rules_of_another_fleet_end_it_with_one_line(tmp_path, broker):
    url = f"mqtt://coordinator:secret@127.0.0.1:{broker.address.port}"
    output = says(tmp_path, "serve", "--broker", url, "--fleet", "other", code=1)
    assert "does not allow pf/1/other/c/state" in output.splitlines()[-1]


def test_the_two_commands_of_a_new_fleet_make_a_file_that_serves(tmp_path):
    path = tmp_path / "fleet.toml"
    assert CliRunner().invoke(coordinator, ["init", str(path)]).exit_code == 0
    path.write_text(path.read_text() + CONTRACT)
    assert load(path, {}, {}).contract.extractor == str(tmp_path / "eye.pfb")


def answers(folder):
    try:
        return ask(folder, "status")
    except FleetError:
        return None
