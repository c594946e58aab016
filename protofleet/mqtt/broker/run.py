"""A broker for people who have none: mosquitto when it is installed, else the embedded one, in a
private directory.

It is up when the `with` block begins (a CONNACK came back) and down when it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from protofleet.errors import BrokerError
from protofleet.mqtt.address import Address
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.mosquitto import BrokerFiles, Listening, acl_text, config_text
from protofleet.util.files import new_file, own_folder
from protofleet.util.processes import without_secrets

Prefer = Literal["auto", "mosquitto", "embedded"]
ANY_PORT = Listening(port=0)
PATIENCE = 20.0  # seconds for a broker to come up
ATTEMPTS = 3  # with other ports
RELOAD = 0.5  # seconds between looks at the files of a fleet by invitation
# CONNECT in 3.1.1, clean session, keep-alive 10 s, client id "ready"
HELLO = bytes([0x10, 17, 0, 4, *b"MQTT", 4, 2, 0, 10, 0, 5, *b"ready"])


@dataclass(frozen=True)
class RunningBroker:
    """A broker that is up. `kind` is "mosquitto" or "embedded"."""

    address: Address
    kind: str
    pid: int
    ws_address: Address | None
    process: subprocess.Popen[bytes]

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def reload(self) -> None:
        """Read rules, logins and lists anew, as they are on disk now."""
        if self.kind == "mosquitto" and self.alive:
            self.process.send_signal(signal.SIGHUP)


@contextlib.contextmanager
def running_broker(
    dir: Path,
    listening: Listening = ANY_PORT,
    *,
    users: Mapping[str, str] | None = None,
    fleet: str = "fleet",
    packet: int = mosquitto.MEGABYTE,
    prefer: Prefer = "auto",
) -> Iterator[RunningBroker]:
    """Start a broker with its files in `dir`; a port of 0 takes a free one, and `users` may do what
    their names allow in this fleet.
    """
    host = listening.host
    program = None if prefer == "embedded" else mosquitto.find()
    if program is None and prefer == "mosquitto":
        raise BrokerError("mosquitto is not installed", "install your system's package mosquitto")
    if program is None:
        _check_embedded(listening)
    if listening.port:
        # Else whoever has it would answer in our broker's place, and we would take it for ours.
        _free_port(host, listening.port)
    own_folder(dir)
    for attempt in range(ATTEMPTS):
        at = _with_ports(listening)
        if program is None:
            command = _embedded(dir, at, users)
        else:
            command = _mosquitto(program, dir, at, users, fleet, packet)
        process = _start(command, dir / "broker.log")
        try:
            _await(process, at, dir / "broker.log")
            break
        except BrokerError:
            _stop(process)
            # A port that was free may be somebody else's by the time the broker asks for it.
            if listening.port or attempt == ATTEMPTS - 1:
                raise
    try:
        yield _running(at, process, "embedded" if program is None else "mosquitto")
    finally:
        _stop(process)


@contextlib.contextmanager
def reloading(broker: RunningBroker, listening: Listening) -> Iterator[None]:
    """Have a broker read anew what the coordinator wrote for it, for as long as the block lasts."""
    reloader, stop = Reloader(broker, listening.files), threading.Event()

    def watch() -> None:
        while not stop.wait(RELOAD):
            reloader.look()

    thread = threading.Thread(target=watch, name="reloading", daemon=True)
    if listening.files is not None:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if listening.files is not None:
            thread.join(2 * RELOAD)


class Reloader:
    """Has a broker read its files anew when the coordinator wrote them."""

    def __init__(self, broker: RunningBroker, files: BrokerFiles | None) -> None:
        self._broker, self._files, self._newest = broker, files, self._stamp(files)

    def look(self) -> None:
        """As often as a revocation may wait."""
        newest = self._stamp(self._files)
        if newest != self._newest:
            self._newest = newest
            self._broker.reload()

    @staticmethod
    def _stamp(files: BrokerFiles | None) -> tuple[int, ...]:
        """When each of them was written; renamed into place, it has another number, too."""
        stamps: list[int] = []
        for path in [] if files is None else sorted(files.folder.iterdir()):
            # One that is being written is renamed away between the list and the look.
            with contextlib.suppress(FileNotFoundError):
                stamps += [path.stat().st_mtime_ns, path.stat().st_ino]
        return tuple(stamps)


def _with_ports(listening: Listening) -> Listening:
    """With free ports where any will do."""
    host, ws_port = listening.host, listening.ws_port
    return replace(
        listening,
        port=listening.port or _free_port(host),
        ws_port=_free_port(host) if ws_port == 0 else ws_port,
    )


def _running(at: Listening, process: subprocess.Popen[bytes], kind: str) -> RunningBroker:
    reach = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(at.host, at.host)
    secure = at.tls is not None
    address = Address("mqtts" if secure else "mqtt", reach, at.port)
    ws = (
        None
        if at.ws_port is None
        else replace(address, scheme="wss" if secure else "ws", port=at.ws_port, path="/mqtt")
    )
    return RunningBroker(address, kind, process.pid, ws, process)


def _mosquitto(
    program: str,
    dir: Path,
    at: Listening,
    users: Mapping[str, str] | None,
    fleet: str,
    packet: int,
) -> list[str]:
    if users is not None:
        salts = {name: secrets.token_bytes(12) for name in users}
        _private(dir / "passwords", mosquitto.passwords_text(users, salts))
    if at.acl is None and (users is not None or (at.tls is not None and at.tls.ca is not None)):
        _private(dir / "acl", acl_text(fleet))
        at = replace(at, passwords=None if users is None else dir / "passwords", acl=dir / "acl")
    # Started by root, mosquitto becomes a user of its own, who may not read this directory.
    user = "root" if os.geteuid() == 0 else None
    _private(dir / "mosquitto.conf", config_text(at, dir, packet=packet, user=user))
    return [program, "-c", str(dir / "mosquitto.conf")]


def _check_embedded(at: Listening) -> None:
    from importlib.util import find_spec

    if at.door is not None:
        raise BrokerError(
            "the embedded broker has no door for who was invited",
            "install mosquitto, or use mqtt:// on this machine, where signatures are what counts",
        )
    if at.host not in ("127.0.0.1", "::1", "localhost"):
        raise BrokerError(
            "the embedded broker serves this machine only", "install mosquitto to listen elsewhere"
        )
    if find_spec("amqtt") is None:
        raise BrokerError(
            "no broker here", "install mosquitto, or pip install 'protofleet[coordinator]'"
        )


def _embedded(dir: Path, at: Listening, users: Mapping[str, str] | None) -> list[str]:
    passwords = None
    if users is not None:
        from pwdlib import PasswordHash
        from pwdlib.hashers.argon2 import Argon2Hasher

        hasher = PasswordHash((Argon2Hasher(),))
        passwords = dir / "passwords"
        _private(
            passwords,
            "".join(f"{name}:{hasher.hash(password)}\n" for name, password in users.items()),
        )
    tls = {
        name: None if at.tls is None else getattr(at.tls, name) for name in ("cert", "key", "ca")
    }
    config = {
        "host": at.host,
        "port": at.port,
        "ws_port": at.ws_port,
        "passwords": passwords,
        **tls,
    }
    _private(dir / "embedded.json", json.dumps(config, default=str))
    return [sys.executable, "-m", "protofleet.mqtt.broker.embedded", str(dir / "embedded.json")]


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with new_file(log) as out:
        # A session of its own: Ctrl-C is for us, and the broker goes last, after the farewells.
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=without_secrets(os.environ),
            )
        except OSError as error:
            raise BrokerError(f"{command[0]} does not start: {error.strerror}") from None


def _await(process: subprocess.Popen[bytes], at: Listening, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise BrokerError(f"the broker ended at once: {_last_words(log)}")
        if _answers(at):
            return
        time.sleep(0.02)
    raise BrokerError(f"the broker does not answer on {at.host}:{at.port}: {_last_words(log)}")


def _answers(at: Listening) -> bool:
    """Whether a CONNACK comes back, whatever it says; a demand for a client certificate is an
    answer as well.
    """
    reach = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(at.host, at.host)
    try:
        with socket.create_connection((reach, at.port), timeout=2) as plain:
            if at.tls is None:
                plain.sendall(HELLO)
                return plain.recv(1) == b"\x20"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(plain) as secure:
                secure.sendall(HELLO)
                return at.tls.ca is not None or secure.recv(1) == b"\x20"
    except ssl.SSLError as error:
        return "alert" in str(error).lower()
    except OSError:
        return False


def _last_words(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    telling = [line for line in lines if "error" in line.lower()] or lines
    return telling[-1].strip() if telling else "it said nothing"


def _free_port(host: str, port: int = 0) -> int:
    """A port that can be had: this one, or any if it is 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise BrokerError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        free: int = probe.getsockname()[1]
    return free


def _private(path: Path, text: str) -> None:
    with new_file(path) as file:
        file.write(text.encode())


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
