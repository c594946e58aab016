"""How commands reach the running service: a socket in its data directory, one JSON line each
way.
"""

from __future__ import annotations

import json
import socket
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from protofleet.errors import FleetError

PATIENCE = 10.0
LONGEST = 1 << 24  # a bundle's prototypes may be in it
LONGEST_PATH = 100


class NotRunning(FleetError):
    """No coordinator answers at this data directory."""

    code = "not-running"
    exit_code = 4


@dataclass(frozen=True)
class Request:
    """A command and its arguments; whoever serves it puts one answer back."""

    command: str
    arguments: dict[str, Any]
    _answers: SimpleQueue[dict[str, Any]] = field(default_factory=SimpleQueue)

    def answer(self, document: dict[str, Any]) -> None:
        """To whoever asked."""
        self._answers.put(document)

    def wait(self, timeout: float) -> dict[str, Any]:
        """The answer."""
        try:
            return self._answers.get(timeout=timeout)
        except Empty:
            return {
                "error": "the coordinator is busy and did not answer in time",
                "code": "timeout",
            }


# What is answered at once, by the thread that serves a connection; None: the service's loop has to.
Look = Callable[[Request], dict[str, Any] | None]


class Control:
    """Listens for commands until closed."""

    def __init__(
        self,
        directory: Path,
        requests: SimpleQueue[Request],
        wake: Callable[[], None],
        look: Look = lambda request: None,
    ) -> None:
        self._path, self._requests, self._wake = Path(_place(directory)), requests, wake
        self._look = look
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(self._path))
        self._path.chmod(0o600)
        self._socket.listen(8)
        threading.Thread(target=self._listen, name="control", daemon=True).start()

    def close(self) -> None:
        """No more commands."""
        self._path.unlink(missing_ok=True)
        self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            peer.settimeout(PATIENCE)
            try:
                document = json.loads(_line(peer))
                request = Request(str(document["command"]), dict(document.get("arguments", {})))
            except (OSError, ValueError, KeyError, TypeError):
                return
            answer = self._look(request)
            if answer is None:
                self._requests.put(request)
                self._wake()
                answer = request.wait(PATIENCE)
            try:
                peer.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                return


def ask(directory: Path, command: str, **arguments: Any) -> dict[str, Any]:
    """The running service's answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(PATIENCE + 1)
            peer.connect(_place(directory))
            peer.sendall(json.dumps({"command": command, "arguments": arguments}).encode() + b"\n")
            line = _line(peer, None)
    except OSError as error:
        raise NotRunning(
            f"no coordinator answers at {directory} ({error.strerror or error})",
            "`coordinator serve` starts one",
        ) from None
    if not line:
        raise NotRunning(f"the coordinator at {directory} went away")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise FleetError(str(answer["error"]))
    return answer


def _line(peer: socket.socket, most: int | None = LONGEST) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        piece = peer.recv(65_536)
        if not piece:
            break
        data += piece
        if most is not None and len(data) > most:
            raise ValueError("a request too long")
    return data


def _place(directory: Path) -> str:
    """In the data directory, or in the system's for temporary files where that path is too long for
    a socket.
    """
    path = str(directory.resolve() / "control.sock")
    if len(path.encode()) <= LONGEST_PATH:
        return path
    return str(
        Path(tempfile.gettempdir()) / f"protofleet-{sha256(path.encode()).hexdigest()[:16]}.sock"
    )
