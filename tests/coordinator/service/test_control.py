"""Commands reach the service through a socket, whoever sends what."""

import os
import socket
import tempfile
import threading
from pathlib import Path
from queue import SimpleQueue

import pytest

from coordinator.service import control
from coordinator.service.control import Control, NotRunning, ask
from protofleet.errors import FleetError


@pytest.fixture
def served(tmp_path):
    """A service that repeats what it is asked, and refuses to sing."""
    requests = SimpleQueue()
    listening = Control(tmp_path, requests, lambda: None)

    def serve():
        while (request := requests.get()) is not None:
            if request.command == "sing":
                request.answer({"error": "I do not sing", "code": "shy"})
            else:
                request.answer({"command": request.command, **request.arguments})

    thread = threading.Thread(target=serve)
    thread.start()
    yield tmp_path
    listening.close()
    requests.put(None)
    thread.join(10)


def test_a_command_and_its_arguments_are_answered(served):
    assert ask(served, "show", round=3) == {"command": "show", "round": 3}


def test_an_answer_may_be_long(served):
    long = "x" * 200_000  # more than one read of a socket
    assert ask(served, "say", words=long)["words"] == long


def test_an_error_is_raised_where_it_was_asked(served):
    with pytest.raises(FleetError, match="I do not sing"):
        ask(served, "sing")


@pytest.mark.parametrize(
    "line", [b"no json\n", b"[]\n", b'{"arguments": {}}\n', b"", b"{", b"[" * 99_999]
)
def test_what_is_no_request_ends_the_connection_and_not_the_service(served, line):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(served / "control.sock"))
        peer.sendall(line)
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1) == b""
    assert ask(served, "still there")["command"] == "still there"


def test_only_its_owner_may_speak_to_it(served):
    assert (served / "control.sock").stat().st_mode & 0o077 == 0


def test_where_nobody_serves_it_is_said(tmp_path):
    with pytest.raises(NotRunning, match="no coordinator answers"):
        ask(tmp_path, "status")


def test_a_service_too_busy_to_answer_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "PATIENCE", 0.1)
    listening = Control(tmp_path, SimpleQueue(), lambda: None)
    try:
        with pytest.raises(FleetError, match="busy"):
            ask(tmp_path, "status")
    finally:
        listening.close()


def test_it_is_its_owner_s_from_the_moment_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "chmod", lambda *_: None)  # a mode set afterwards comes too late
    before = os.umask(0)
    try:
        listening = Control(tmp_path, SimpleQueue(), lambda: None)
    finally:
        os.umask(before)
    mode = (tmp_path / "control.sock").stat().st_mode
    listening.close()
    assert mode & 0o077 == 0


def test_a_path_too_long_for_a_socket_leads_nowhere_that_others_can_guess(tmp_path, monkeypatch):
    # Not below pytest's own folder, whose path may be too long itself.
    public = Path(tempfile.mkdtemp(prefix="pf-", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(public))
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    places = []
    for _ in range(2):  # the second start finds what the first left, as one that was killed does
        listening = Control(deep, SimpleQueue(), lambda: None)
        (folder,) = public.iterdir()
        assert folder.stat().st_mode & 0o077 == 0
        assert os.readlink(deep / "control.sock") == str(folder / "control.sock")
        places.append(folder.name)
    assert places[0] != places[1]
    listening.close()
    assert not list(public.iterdir())
    public.rmdir()
    assert not list(deep.iterdir())
    with pytest.raises(NotRunning):
        ask(deep, "status")


def test_a_place_for_the_socket_that_is_no_place_is_said(tmp_path, monkeypatch):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))  # as long
    with pytest.raises(FleetError, match="no socket at"):
        Control(deep, SimpleQueue(), lambda: None)


def test_a_path_too_long_for_a_socket_works_all_the_same(tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    requests = SimpleQueue()
    listening = Control(deep, requests, lambda: requests.get().answer({"deep": True}))
    try:
        assert ask(deep, "status") == {"deep": True}
    finally:
        listening.close()
