"""How commands reach the running service: a socket in its data directory, one JSON line each
way.
"""

# The socket is `control.sock` in the data directory. A path too long for a socket is no reason to
# put it where others could guess it and be there first, to answer in the service's place or keep it
# from starting: it is then made in a directory of its own, random and for its owner alone, and
# `control.sock` is a link that leads there.

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from protofleet.errors import FleetError
from protofleet.util.files import OWN_FILE

PATIENCE = 10.0
LONGEST = 1 << 24  # a bundle's prototypes may be in it
NAME = "control.sock"
LONGEST_PATH = 100  # bytes; systems stop at 104 or 108


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
        self._requests, self._wake, self._look = requests, wake, look
        self._link = directory.absolute() / NAME
        _remove(self._link)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # What is bound has the mode that the socket has by then; systems other than Linux do not
        # know that, and have the mode set a moment later.
        with contextlib.suppress(OSError):
            os.fchmod(self._socket.fileno(), OWN_FILE)
        path = self._link
        if len(os.fsencode(path)) > LONGEST_PATH:
            path = Path(tempfile.mkdtemp(prefix="protofleet-")) / NAME
            self._link.symlink_to(path)
        try:
            self._socket.bind(str(path))
        except OSError as error:
            _remove(self._link)
            self._socket.close()
            raise FleetError(f"no socket at {path}: {error.strerror or error}") from None
        path.chmod(OWN_FILE)
        self._socket.listen(8)
        threading.Thread(target=self._listen, name="control", daemon=True).start()

    def close(self) -> None:
        """No more commands."""
        _remove(self._link)
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
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
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
    if "error" in answer and "code" in answer:  # a document may have a word for errors, too
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
    """Where the socket is."""
    link = directory.absolute() / NAME
    try:
        return os.readlink(link)
    except OSError:
        return str(link)


def _remove(link: Path) -> None:
    """A socket of this life or of one that was killed, wherever it lies."""
    if link.is_symlink():
        place = Path(os.readlink(link))
        # Temporary files are everybody's: what is not ours stays, whatever it is called.
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)
            place.parent.rmdir()
    link.unlink(missing_ok=True)
