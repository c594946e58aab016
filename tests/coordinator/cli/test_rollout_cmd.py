"""`coordinator rollout` as a person types and reads it."""

import json

import pytest
from click.testing import CliRunner

from coordinator.cli import rollout_cmd
from coordinator.cli.rollout_cmd import rollout, rollout_lines, seconds_of, share_of
from protofleet.errors import UsageError

GROUP = {"waiting": 0, "busy": 1, "proven": 1, "failed": 0, "silent": 0}
DOCUMENT = {
    "rollout": 3,
    "kind": "bundle",
    "bundle": "ab" * 32,
    "state": "",
    "phase": "open",
    "words": "",
    "groups": [
        {"group": 1, "share": 0.05, "opened": True, **GROUP},
        {"group": 2, "share": 1.0, "opened": False, **dict.fromkeys(GROUP, 0)},
    ],
    "samples": 160,
    "before": 0.9,
    "after": 0.88,
    "agreement": 0.95,
    "devices": [{"agent": "door", "is": "failed", "words": "12 points\x1b[2J less"}],
}


def test_shares_and_times_as_people_write_them():
    assert [share_of(t) for t in ("5%", "0.05", "100 %".replace(" ", ""))] == [0.05, 0.05, 1.0]
    assert [seconds_of(t) for t in ("90", "30s", "10m", "2h", "1d")] == [90, 30, 600, 7200, 86400]
    for wrong in ("five", "-5%", ""):
        with pytest.raises(UsageError):
            share_of(wrong)
    with pytest.raises(UsageError):
        seconds_of("soon")


def test_how_it_stands_in_lines():
    lines = rollout_lines(DOCUMENT)
    assert lines[0] == "rollout 3 of bundle abababababababab, open"
    assert lines[1] == "group 1    to 5 %: 1 proven, 1 busy"
    assert lines[2] == "group 2    to 100 % (not open yet): nobody there"
    assert "90.0 % before, 88.0 % after, on 160 samples" in lines[3]
    assert lines[4].startswith("  door                 failed: 12 points")
    assert "\x1b" not in lines[4]
    assert rollout_lines({"rollout": None}) == ["no rollout yet: coordinator rollout start X.pfb"]


@pytest.fixture
def socket(monkeypatch, tmp_path):
    """What is asked, and answers in turn."""
    answers, asked = [], []

    def ask(data_dir, command, **words):
        asked.append((command, words))
        return {} if command == "status" else answers.pop(0)

    monkeypatch.setattr(rollout_cmd, "ask", ask)
    monkeypatch.setattr("coordinator.cli.freeze_cmd.ask", ask)
    monkeypatch.setattr(rollout_cmd, "NAP", 0.0)

    def run(*words):
        return CliRunner().invoke(rollout, [*words, "--data-dir", str(tmp_path)])

    return run, answers, asked


def test_what_is_asked_of_the_coordinator(socket, tmp_path):
    run, answers, asked = socket
    (tmp_path / "x.pfb").write_bytes(b"bundle")
    answers.append(DOCUMENT)
    words = ("--groups", "10%,100%", "--error", "5%", "--canary", "door", "--soak", "2m")
    done = run("start", str(tmp_path / "x.pfb"), *words)
    assert done.exit_code == 0, done.output
    command, said = asked[-1]
    assert (command, said["what"], said["groups"]) == ("rollout", "start", [0.1, 1.0])
    assert (said["error"], said["canaries"], said["trial"]["soak"]) == (0.05, ["door"], 120.0)
    answers.append(DOCUMENT)
    assert json.loads(run("status", "--json").output) == DOCUMENT
    answers.append(DOCUMENT)
    assert run("halt").exit_code == 0
    assert asked[-1][1]["what"] == "halt"


def test_who_follows_learns_by_the_exit_code(socket):
    run, answers, _ = socket
    answers += [DOCUMENT, DOCUMENT, {**DOCUMENT, "phase": "done"}]
    done = run("status", "--follow")
    assert done.exit_code == 0
    assert "done" in done.output
    answers += [DOCUMENT, {**DOCUMENT, "phase": "back", "words": "1 of 2 devices failed"}]
    done = run("status", "--follow")
    assert done.exit_code == 1
    assert str(done.exception) == "rollout 3 went back: 1 of 2 devices failed"


def test_lists_and_histories(socket):
    run, answers, asked = socket
    row = {"rollout": 3, "at": 0.0, "groups": [0.05, 1.0], "words": "by anna", "phase": "back"}
    answers.append({"rollouts": [{**row, "kind": "bundle", "bundle": "ab" * 32}]})
    assert "abababababababab 5%,100%  back: by anna" in run("list").output
    steps = [
        {"rollout": 3, "agent": "", "step": "started", "words": "x", "at": 0.0},
        {"rollout": 3, "agent": "door", "step": "running", "words": "", "at": 1.0},
    ]
    answers.append({"steps": steps})
    output = run("history", "3").output
    assert asked[-1][1]["number"] == 3
    assert [line.split()[3:5] for line in output.splitlines()] == [
        ["coordinator", "started"],
        ["door", "running"],
    ]
