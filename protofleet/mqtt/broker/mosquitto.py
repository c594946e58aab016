"""Configuration, access rules and passwords for mosquitto, as text: for a broker of ours or for one
you run yourself.

A device's user name is its agent id: the rules let it write under its own id and nowhere else.
"""

# Theory of operation
#
# What the fleet needs of its broker, and the settings that give it:
#
#   need                                            setting
#   a retained state outlives the broker            persistence, autosave every 10 s
#   a device that was away gets what it missed      persistent_client_expiration 14 d
#   the coordinator commits many uploads at once    max_inflight_messages 1000
#   a thousand devices may all send in one second   max_queued_messages, max_queued_bytes
#   ten thousand devices hear a word in a second    allow_duplicate_messages
#   no client fills its memory with one packet      max_packet_size
#   nobody speaks for another device                the access rules of one fleet, and at every
#                                                   listener use_username_as_clientid
#
# - Written every ten seconds and not with each message: what a power cut takes is said again. The
#   coordinator publishes everything retained on each connect, and a device keeps an upload until it
#   has the receipt. Written with each message, the whole database would be written each time.
# - The coordinator acknowledges an upload once it is in the journal, and commits in groups; with
#   the default of 20 in flight a group could never be larger than that. Its own receive maximum
#   is the bound that counts.
# - Of every message mosquitto remembers whom it went to, and looks through all of them for each
#   further receiver that speaks 3.1.1, lest one with overlapping subscriptions get it twice: fifty
#   million comparisons at ten thousand devices. Nobody here has subscriptions that overlap
#   (tests/protofleet/mqtt/test_topics.py), so it need not.
# - In MQTT a client id belongs to nobody: a second connection under it ends the first one and takes
#   its session over. With the user name as client id, that needs the password (or the certificate)
#   of the one that is to be thrown out.
# - `use_username_as_clientid` holds for the listener above it alone, so each has it: written once
#   it would hold for the last, and a device could end the coordinator's session at the other.
# - Rules are of one fleet: a device that may write under its id in every fleet is somebody else's
#   device there, if that fleet has one of its name.
# - OpenSSL refuses a client whose certificate names its usages and not that of a client. One that
#   names none passes, and mosquitto has no setting for it; so an authority that signs anything but
#   this fleet's clients lets in whom it signs. `passes_as_client` tries the broker's own.
# - The rules know a device by its user name, `%u`, never by its client id, `%c`, which it chooses.
#   With a certificate, its common name is the user name. A will is checked like a publication.
# - A fleet by invitation has a second listener, the door, where who has no certificate yet asks for
#   one. An invitation is a login there, may write its question and read its answer, and nothing
#   else. The first listener then takes certificates alone, and holds them against the list of those
#   that were taken back; what such a device may still do at a connection that it has, `deny` ends.
#   Each listener has rules and logins of its own (`per_listener_settings`); SIGHUP reads them anew.
# - Where nobody has to log in there is no user name, so that access rules mean nothing; such a
#   broker is for one machine, and the command refuses to listen elsewhere without users.

from __future__ import annotations

import base64
import contextlib
import hashlib
import shutil
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from protofleet.mqtt.topics import ROOT, check_name

COORDINATOR = "coordinator"
# Where packages put daemons; the PATH of an ordinary user leaves them out.
FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")
MEGABYTE = 2**20
AUTOSAVE = 10  # seconds
ROUNDS = 1000  # of the password hash
# What stands behind d/{id}/ (`topics`); as text, because brokers in the field have it as text.
READS = ("desired", "down", "rcpt", "box", "blob/+/+", "cmd", "crt", "press/+")
WRITES = ("state", "reported", "up/+", "blob/req", "ub/+/+", "ack", "evt", "csr")
# Home automation: what a device says for it and puts there, and what its user may see and press.
HOMES = "homeassistant"  # the user, and the prefix of what is discovered
SHOWS = ("sight", "picture", "home", "sees/+")
ENTITIES = ("binary_sensor", "button", "image", "sensor", "update")


@dataclass(frozen=True)
class Tls:
    """The broker's certificate and key; with `ca`, clients must show a certificate of that
    authority, which is not in the list `revoked`.
    """

    cert: Path
    key: Path
    ca: Path | None = None
    revoked: Path | None = None


@dataclass(frozen=True)
class BrokerFiles:
    """What the coordinator of a fleet by invitation writes for its broker."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "broker.pem"

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"

    @property
    def revoked(self) -> Path:
        return self.folder / "revoked.pem"

    @property
    def acl(self) -> Path:
        return self.folder / "acl"

    @property
    def door_acl(self) -> Path:
        return self.folder / "door.acl"

    @property
    def door_passwords(self) -> Path:
        return self.folder / "door.passwords"

    @property
    def tls(self) -> Tls:
        return Tls(self.certificate, self.folder / "broker.key", self.authority, self.revoked)


@dataclass(frozen=True)
class Listening:
    """Where a broker listens and whom it lets in."""

    host: str = "127.0.0.1"
    port: int = 1883
    ws_port: int | None = None
    tls: Tls | None = None
    passwords: Path | None = None
    acl: Path | None = None
    door: int | None = None  # the port where who was invited asks for a certificate
    files: BrokerFiles | None = None  # of a fleet by invitation

    @classmethod
    def of_members(cls, host: str, port: int, ws_port: int | None, folder: Path) -> Listening:
        """Where a fleet by invitation meets: its devices at the port, its door at the next."""
        files = BrokerFiles(folder)
        return cls(host, port, ws_port, files.tls, None, files.acl, door_of(port), files)


def door_of(port: int) -> int:
    """Where the door is, unless it is said."""
    return port + 1


def find() -> str | None:
    """The mosquitto program, also where the PATH of an ordinary user does not look."""
    on_path = shutil.which("mosquitto")
    return on_path or next(
        (str(path) for folder in FOLDERS if (path := Path(folder, "mosquitto")).is_file()), None
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
    lines = ["# mosquitto 2 for a ProtoFleet fleet"]
    rules = [f"allow_anonymous {'false' if login else 'true'}"]
    rules += [] if at.passwords is None else [f"password_file {at.passwords}"]
    rules += [] if at.acl is None else [f"acl_file {at.acl}"]
    if at.door is None or at.files is None:
        listener_rules, common = [], rules
    else:
        lines.append("per_listener_settings true")
        listener_rules, common = rules, []
    lines += [*_listener(at, at.port, login), *listener_rules]
    if at.ws_port is not None:
        lines += ["", *_listener(at, at.ws_port, login), "protocol websockets", *listener_rules]
    if at.door is not None and at.files is not None:
        door = replace(at, tls=None if at.tls is None else replace(at.tls, ca=None))
        lines += ["", "# The door: an invitation is a login here, and may ask for a certificate."]
        lines += [*_listener(door, at.door, login), "allow_anonymous false"]
        lines += [f"password_file {at.files.door_passwords}", f"acl_file {at.files.door_acl}"]
    lines += ["", *common] if common else []
    lines += [
        "",
        "# Retained messages and sessions outlive the broker; a power cut costs up to so many "
        "seconds. That is",
        "# enough: what is retained is published again on each connect, and a device keeps an "
        "upload until it is",
        "# receipted. (autosave_on_changes would write everything again for each message.)",
        "persistence true",
        f"persistence_location {data_dir}/",
        "autosave_on_changes false",
        f"autosave_interval {AUTOSAVE}",
        "persistent_client_expiration 14d",
        "",
        "# The coordinator takes many uploads before it acknowledges any: the default of 20 would "
        "hold them back.",
        "max_inflight_messages 1000",
        "max_queued_messages 100000",
        f"max_queued_bytes {256 * MEGABYTE}",
        f"max_packet_size {packet}",
        "",
        "# No client of a fleet has subscriptions that overlap, so nobody need be looked for among "
        "those who have",
        "# a message: of ten thousand that costs seconds each time.",
        "allow_duplicate_messages true",
        "",
        "log_dest stderr",
        "log_type error",
        "log_type warning",
        "log_type notice",
    ]
    if user is not None:
        lines.append(f"user {user}")
    return "\n".join(lines) + "\n"


def _listener(at: Listening, port: int, login: bool) -> list[str]:
    lines = [f"listener {port} {at.host}"]
    if login:
        # Nobody can take over another's session. A comment of its own: behind a value, mosquitto
        # takes it for a part of that.
        lines.append("use_username_as_clientid true")
    if at.tls is not None:
        lines += [f"certfile {at.tls.cert}", f"keyfile {at.tls.key}", "tls_version tlsv1.2"]
        if at.tls.ca is not None:
            lines += [
                f"cafile {at.tls.ca}",
                "require_certificate true",
                "use_identity_as_username true",
            ]
            lines += [] if at.tls.revoked is None else [f"crlfile {at.tls.revoked}"]
    return lines


def passes_as_client(tls: Tls) -> str | None:
    """The name under which this broker's own certificate would be let in by its authority; None if
    it would not be.
    """
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), _unchecking()
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        server.verify_mode = ssl.CERT_REQUIRED
        server.load_verify_locations(tls.ca)
        for context in (server, client):
            context.load_cert_chain(tls.cert, tls.key)
        ends = (
            client.wrap_bio(ours, theirs),
            server.wrap_bio(theirs, ours, server_side=True),
        )
        # Three flights either way are more than any handshake has.
        for end in ends * 3:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
        document: Any = ends[1].getpeercert() or {}
    except (ssl.SSLError, OSError, ValueError):
        return None
    parts = dict(pair for part in document.get("subject", ()) for pair in part)
    return parts.get("commonName")


def _unchecking() -> ssl.SSLContext:
    """For a handshake of a certificate with itself, where nobody is deceived."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def acl_text(fleet: str, revoked: Sequence[str] = ()) -> str:
    """Who may read and write what: the user `coordinator` everything in this fleet, a device its
    own, who was turned away nothing, and nobody anything in another.
    """
    root = f"{ROOT}/{check_name('fleet', fleet)}"
    lines = [
        f"# For the fleet {fleet} alone. A device's user name is its agent id (%u).",
        f"user {COORDINATOR}",
        f"topic readwrite {root}/#",
        f"topic write {HOMES}/+/+/+/config",
        *_home(root),
        *(line for name in revoked for line in (f"user {name}", "topic deny #")),
        "",
        f"pattern read {root}/c/state",
        f"pattern read {root}/g/#",
        *(f"pattern read {root}/d/%u/{end}" for end in READS),
        *(f"pattern write {root}/d/%u/{end}" for end in (*WRITES, *SHOWS)),
        *(f"pattern write {HOMES}/{kind}/%u/+/config" for kind in ENTITIES),
    ]
    return "\n".join(lines) + "\n"


def _home(root: str) -> list[str]:
    """Home Assistant: reads what is discovered and shown, presses buttons, and nothing else."""
    shown = ("c/state", "c/home", "d/+/state", *(f"d/+/{end}" for end in SHOWS))
    return [
        f"user {HOMES}",
        f"topic readwrite {HOMES}/status",
        f"topic read {HOMES}/#",
        f"topic deny {root}/g/#",  # the patterns are for everybody
        *(f"topic read {root}/{end}" for end in shown),
        f"topic write {root}/d/+/press/+",
    ]


def door_acl_text(fleet: str) -> str:
    """At the door: who was invited asks, and hears the answer."""
    root = f"{ROOT}/{check_name('fleet', fleet)}"
    return (
        f"# An invitation's name is its user name (%u).\n"
        f"pattern write {root}/j/%u/ask\npattern read {root}/j/%u/answer\n"
    )


def passwords_text(users: Mapping[str, str], salts: Mapping[str, bytes]) -> str:
    """mosquitto's password file: PBKDF2 with a salt of 12 bytes each."""
    return "".join(f"{name}:{_hashed(password, salts[name])}\n" for name, password in users.items())


def _hashed(password: str, salt: bytes) -> str:
    # As mosquitto_passwd makes them: $7$ is PBKDF2 with SHA-512.
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ROUNDS, 64)
    return f"$7${ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
