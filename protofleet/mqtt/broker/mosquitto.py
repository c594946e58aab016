"""Configuration, access rules and passwords for mosquitto, as text: for a broker of ours or for one
you run yourself.

A device's user name is its agent id: the rules let it write under its own id and nowhere else.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from protofleet.mqtt.topics import ROOT, check_name

COORDINATOR = "coordinator"
PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")
MEGABYTE = 2**20
AUTOSAVE = 10  # seconds
READS = ("desired", "down", "rcpt", "blob/+/+", "cmd")
WRITES = ("state", "reported", "up/+", "blob/req", "ub/+/+", "ack", "evt")


@dataclass(frozen=True)
class Tls:
    """The broker's certificate and key; with `ca`, clients must show a certificate of that
    authority.
    """

    cert: Path
    key: Path
    ca: Path | None = None


@dataclass(frozen=True)
class Listening:
    """Where a broker listens and whom it lets in."""

    host: str = "127.0.0.1"
    port: int = 1883
    ws_port: int | None = None
    tls: Tls | None = None
    passwords: Path | None = None
    acl: Path | None = None


def find() -> str | None:
    """The mosquitto program, also where the PATH of an ordinary user does not look."""
    found = shutil.which("mosquitto")
    return found or next(
        (str(path) for place in PLACES if (path := Path(place, "mosquitto")).is_file()), None
    )


def config_text(
    at: Listening,
    data_dir: Path,
    *,
    packet: int = MEGABYTE,
    user: str | None = None,
) -> str:
    """A whole mosquitto.conf. `user` is who it runs as when started by root (else mosquitto's own
    choice).
    """
    login = at.passwords is not None or (at.tls is not None and at.tls.ca is not None)
    lines = ["# mosquitto 2 for a ProtoFleet fleet", *_listener(at, at.port)]
    if at.ws_port is not None:
        lines += ["", *_listener(at, at.ws_port), "protocol websockets"]
    lines += ["", f"allow_anonymous {'false' if login else 'true'}"]
    if at.passwords is not None:
        lines.append(f"password_file {at.passwords}")
    if at.acl is not None:
        lines.append(f"acl_file {at.acl}")
    if login:
        lines.append("use_username_as_clientid true  # nobody can take over another's session")
    lines += [
        "",
        "# Retained messages and sessions outlive the broker; a power cut costs up to so many seconds. That is",
        "# enough: what is retained is published again on each connect, and a device keeps an upload until it is",
        "# receipted. (autosave_on_changes would write everything again for each message.)",
        "persistence true",
        f"persistence_location {data_dir}/",
        "autosave_on_changes false",
        f"autosave_interval {AUTOSAVE}",
        "persistent_client_expiration 14d",
        "",
        "# The coordinator takes many uploads before it acknowledges any: the default of 20 would hold them back.",
        "max_inflight_messages 1000",
        "max_queued_messages 100000",
        f"max_queued_bytes {256 * MEGABYTE}",
        f"max_packet_size {packet}",
        "",
        "log_dest stderr",
        "log_type error",
        "log_type warning",
        "log_type notice",
    ]
    if user is not None:
        lines.append(f"user {user}")
    return "\n".join(lines) + "\n"


def _listener(at: Listening, port: int) -> list[str]:
    lines = [f"listener {port} {at.host}"]
    if at.tls is not None:
        lines += [f"certfile {at.tls.cert}", f"keyfile {at.tls.key}", "tls_version tlsv1.2"]
        if at.tls.ca is not None:
            lines += [
                f"cafile {at.tls.ca}",
                "require_certificate true",
                "use_identity_as_username true",
            ]
    return lines


def acl_text(fleet: str | None = None) -> str:
    """Who may read and write what: the user `coordinator` everything, a device its own; `None` is
    for every fleet.
    """
    root = f"{ROOT}/{'+' if fleet is None else check_name('fleet', fleet)}"
    lines = [
        "# A device's user name is its agent id (%u).",
        f"user {COORDINATOR}",
        f"topic readwrite {root}/#",
        "",
        f"pattern read {root}/c/state",
        f"pattern read {root}/g/#",
        *(f"pattern read {root}/d/%u/{end}" for end in READS),
        *(f"pattern write {root}/d/%u/{end}" for end in WRITES),
    ]
    return "\n".join(lines) + "\n"


def passwords_text(users: Mapping[str, str], salts: Mapping[str, bytes]) -> str:
    """mosquitto's password file: PBKDF2 with a salt of 12 bytes each."""
    return "".join(f"{name}:{_hashed(password, salts[name])}\n" for name, password in users.items())


def _hashed(password: str, salt: bytes, rounds: int = 1000) -> str:
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, rounds, 64)
    return f"$7${rounds}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
