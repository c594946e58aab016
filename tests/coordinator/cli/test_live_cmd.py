"""Commands that ask a running service: what a person reads of its answers."""

import json
import threading
import time
from pathlib import Path
from queue import SimpleQueue

import pytest
from click.testing import CliRunner

from coordinator.cli import coordinator, live_cmd
from coordinator.cli.live_cmd import place, status_lines
from coordinator.service.control import Control
from protofleet.errors import SettingError
from protofleet.util.files import lock

STATUS = {
    "fleet": "orchard",
    "run": "r1",
    "method": "fedproto",
    "epoch": 2,
    "connected": True,
    "phase": "collecting",
    "round": 3,
    "rounds": 9,
    "asked": 12,
    "answered": 2,
    "missing": [f"device-{n}" for n in range(10)],
    "seconds_left": 41.6,
    "agents_online": 11,
    "agents_known": 12,
    "accuracy": {"test": 0.875},
    "uploads": 26,
    "upload_bytes": 1_500_000,
    "duplicates": 1,
    "late": 4,
    "refused": {"norm": 2, "count": 1},
    "state_round": 2,
    "state_sha256": "ab" * 32,
}


@pytest.fixture
def call(tmp_path):
    """A command against a service that gives these answers; what was printed, and its code."""
    answers, requests = {}, SimpleQueue()
    control = Control(tmp_path, requests, lambda: None)

    def serve():
        while (request := requests.get()) is not None:
            request.answer(answers[request.command])

    thread = threading.Thread(target=serve)
    thread.start()

    def run(*words, **known):
        return outcome(*words, **known).output

    def outcome(*words, **known):
        answers.update(known)
        return CliRunner().invoke(coordinator, [*words, "--data-dir", str(tmp_path)])

    run.outcome = outcome
    yield run
    control.close()
    requests.put(None)
    thread.join(10)


def test_the_status_is_a_line_for_each_thing():
    lines = dict(line.split(None, 1) for line in status_lines(STATUS))
    assert lines["round"] == "3 of 9, collecting: 2 of 12 answered, 42 s to the deadline"
    assert lines["missing"].endswith("device-7, ...")
    assert lines["accuracy"] == "test 87.50 %"
    assert lines["uploads"] == "26 (1.50 MB), 1 sent again"
    assert lines["refused"] == "1 count, 2 norm"
    assert lines["state"] == "of round 2, abababababababab"


def test_a_fleet_without_an_end_or_an_open_round_says_neither():
    still = {**STATUS, "rounds": None, "seconds_left": None, "missing": [], "refused": {}}
    lines = dict(line.split(None, 1) for line in status_lines({**still, "accuracy": {}}))
    assert lines["round"] == "3, collecting: 2 of 12 answered"
    assert (lines["missing"], lines["refused"]) == ("nobody", "none")
    assert lines["accuracy"] == "not reported yet"


def test_what_is_wrong_and_what_to_do_stands_at_the_end():
    alert = {"sentence": "a has been silent.", "suggestion": "Look\x1b there."}
    assert status_lines({**STATUS, "alerts": [alert]})[-1] == (
        "! wrong    a has been silent. Look\\x1b there."
    )


def test_a_device_shows_its_version_what_it_runs_leaves_out_and_was_refused(call):
    row = {
        "agent": "a",
        "online": True,
        "left": False,
        "accuracy": {},
        "declines": "",
        "version": "1.2.3",
        "runs": "b" * 64,
        "notice": "left out: elk",
        "refused": "too old",
    }
    line = call("agents", agents={"agents": [row]})
    for words in (
        "version 1.2.3",
        "runs bbbbbbbbbbbb",
        "left out: elk",
        "refused: too old",
    ):
        assert words in line


def test_for_programs_it_is_the_answer_itself(call):
    assert json.loads(call("status", "--json", status=STATUS)) == STATUS


@pytest.mark.parametrize(
    ("there", "presence"),
    [
        ({"online": True, "left": False}, "online"),
        ({"online": False, "left": True}, "left"),
        ({"online": False, "left": False}, "lost 12 s ago"),
    ],
)
def test_a_device_is_online_or_gone_and_how(call, there, presence):
    device = {"agent": "a", "seen_seconds_ago": 12.3, "accuracy": {}, "declines": "too warm"}
    line = call("agents", agents={"agents": [{**device, **there, "samples": 7}]})
    assert line.split("  ")[-1].strip() == "too warm"
    assert presence in line
    assert "7 samples of 0 classes" in line


def test_rounds_are_a_line_each_whether_they_are_closed_or_open(call):
    rows = [
        {"round": 1, "asked": 3, "uploads": 2, "reason": "deadline", "state_sha256": "cd" * 32},
        {"round": 2, "asked": 3, "uploads": 1, "reason": None, "state_sha256": None},
    ]
    first, second = call("rounds", rounds={"rounds": rows}).splitlines()
    assert first.split() == ["round", "1", "asked", "3", "uploads", "2", "deadline", "cd" * 8]
    assert second.split()[6:] == ["open", "no", "new", "state"]


def test_a_round_shows_its_uploads_and_events(call):
    upload = {"agent": "a", "status": "accepted", "digest": "ef" * 32, "cut": 4}
    event = {"kind": "put-off", "at": 1.0, "round": 3, "missing": ["b"]}
    document = {"base_round": 2, "reason": None, "uploads": [upload], "events": [event]}
    head, line, last = call("show", "3", show=document).splitlines()
    assert head == "round 3 on the state of round 2, open"
    assert line.split() == ["a", "accepted", "ef" * 8, "fused", "in", "4"]
    assert last == '  put-off {"missing": ["b"]}'


def test_a_word_to_the_service_prints_its_answer(call):
    assert call("pause", pause={"paused": True}) == "paused: True\n"


def test_stop_comes_back_when_the_service_has_ended_and_not_before(call, tmp_path):
    held, ended = lock(tmp_path), []  # as the journal of the service holds it

    def end():
        ended.append(time.monotonic())
        held.close()

    timer = threading.Timer(0.5, end)
    timer.start()
    answer = json.loads(call("stop", "--json", stop={"stopping": True}))
    assert ended
    assert answer == {"stopping": True, "stopped": True}
    timer.join()


def test_one_that_does_not_end_is_said_to_be_ending(call, tmp_path, monkeypatch):
    monkeypatch.setattr(live_cmd, "END", 0.2)
    with lock(tmp_path):
        assert "is still ending" in str(call.outcome("stop", stop={"stopping": True}).exception)


def test_what_a_device_says_of_itself_moves_no_terminal(call):
    device = {"agent": "a", "seen_seconds_ago": 1, "accuracy": {}, "declines": "\x1b[2J\nok"}
    printed = call("agents", agents={"agents": [{**device, "online": True, "left": False}]})
    assert "\x1b" not in printed
    assert printed.count("\n") == 1


def test_the_directory_is_that_of_the_settings_unless_one_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert place(None, None) == Path("coordinator-data")
    (tmp_path / "fleet.toml").write_text('[serve]\ndata_dir = "kept"\n')
    assert place(None, None) == tmp_path / "kept"
    other = tmp_path / "elsewhere" / "o.toml"
    other.parent.mkdir()
    other.write_text("[serve]\n")
    assert place(other, None) == other.parent / "coordinator-data"
    assert place(other, Path("named")) == Path("named")
    with pytest.raises(SettingError, match=r"none\.toml"):
        place(tmp_path / "none.toml", None)
