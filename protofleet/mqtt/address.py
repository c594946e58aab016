"""Where a broker is and how to get in: one URL, and credentials that may come from elsewhere.

A password is taken from the credentials file, else from the URL, else from the environment, and is
never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from urllib.parse import SplitResult, unquote, urlsplit

from protofleet.errors import UsageError

PORTS = MappingProxyType({"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443})
NOTHING: Mapping[str, str] = MappingProxyType({})
EXAMPLE = "write it like mqtt://localhost:1883, mqtts://, ws:// or wss://"


@dataclass(frozen=True)
class Address:
    """A broker as a client sees it; printing one shows no secret."""

    scheme: str
    host: str
    port: int
    path: str = ""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    member: Path | None = None  # the data directory of a device that joined: its words are signed
    unchecked: bool = False  # where nobody can say yet whose certificate the broker should have

    @property
    def tls(self) -> bool:
        return self.scheme in ("mqtts", "wss")

    @property
    def websockets(self) -> bool:
        return self.scheme in ("ws", "wss")

    @property
    def in_the_open(self) -> str:
        """What to tell whoever sends a password that others on the way can read; empty if they
        cannot.
        """
        if self.tls or self.password is None or loopback(self.host):
            return ""
        return (
            f"the password for {self} goes over the network as it is: "
            f"use {'wss' if self.websockets else 'mqtts'}://"
        )

    @property
    def shared(self) -> bool:
        """Whether others than this machine's owner may be at the broker: it is elsewhere, or lets
        its clients in by who they are.
        """
        return not loopback(self.host) or self.username is not None or self.cert is not None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        credentials_file: Path | None = None,
        environ: Mapping[str, str] = NOTHING,
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
    ) -> Address:
        """From a URL such as `mqtts://name:password@host:8883`; anything wrong is one
        `UsageError`.
        """
        parts, port = _split(url)
        username, password = _credentials(parts, credentials_file, environ)
        path = parts.path.rstrip("/")
        if parts.scheme in ("ws", "wss"):
            path = path or "/mqtt"
        elif path:
            raise UsageError(f"broker URL: {parts.scheme}:// has no path", EXAMPLE)
        files = {"CA": ca, "client certificate": cert, "client key": key}
        present = {what: file for what, file in files.items() if file is not None}
        # Certificates with an unencrypted scheme are a misunderstanding: somebody believes to be
        # safe. Better no connection than one in the open.
        if present and parts.scheme not in ("mqtts", "wss"):
            raise UsageError(
                f"broker URL: {parts.scheme}:// is not encrypted",
                "use mqtts:// or wss:// with certificates",
            )
        if (cert is None) != (key is None):
            raise UsageError(
                "a client certificate and its key go together", "give both files or none"
            )
        for what, file in present.items():
            if not file.is_file():
                raise UsageError(f"{what} file {file} is not there")
        return cls(
            parts.scheme, parts.hostname or "", port, path, username, password, ca, cert, key
        )


def loopback(host: str) -> bool:
    """Whether this is a name or number of this machine itself."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url.strip())
        port = parts.port  # parsed only now: this may raise, too
    except ValueError:
        raise UsageError("broker URL: the host or the port is malformed", EXAMPLE) from None
    if parts.scheme not in PORTS or "://" not in url:
        raise UsageError(f"broker URL: scheme {_shown(parts.scheme)} is not known", EXAMPLE)
    if not parts.hostname:
        raise UsageError("broker URL: no host", EXAMPLE)
    if parts.query or parts.fragment:
        raise UsageError("broker URL: nothing may follow the path", EXAMPLE)
    if port == 0:
        raise UsageError("broker URL: port 0 cannot be reached", EXAMPLE)
    return parts, port or PORTS[parts.scheme]


def _shown(scheme: str) -> str:
    # A URL without a scheme may begin with a password ("name:secret@host"): only what looks like a
    # scheme is repeated in the error.
    return repr(scheme) if scheme.isalnum() and len(scheme) < 16 else "(none)"


def _credentials(
    parts: SplitResult, file: Path | None, environ: Mapping[str, str]
) -> tuple[str | None, str | None]:
    if file is not None:
        return _from_file(file)
    if parts.username:
        password = None if parts.password is None else unquote(parts.password)
        # A name in the URL and its password elsewhere is the usual split: command lines are seen by
        # everybody on the machine.
        return unquote(parts.username), password or environ.get("PROTOFLEET_MQTT_PASSWORD")
    username = environ.get("PROTOFLEET_MQTT_USERNAME")
    password = environ.get("PROTOFLEET_MQTT_PASSWORD")
    if password and not username:
        raise UsageError("PROTOFLEET_MQTT_PASSWORD is set and PROTOFLEET_MQTT_USERNAME is not")
    return username or None, password or None


def _from_file(file: Path) -> tuple[str, str]:
    """Two lines, or one line `name:password`."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"credentials file {file} cannot be read ({type(error).__name__})"
        ) from None
    lines = [line for line in lines if line.strip()]
    username, colon, password = lines[0].partition(":") if len(lines) == 1 else ("", "", "")
    if len(lines) == 2:
        username, colon, password = lines[0].strip(), ":", lines[1]
    if not username or not colon or not password:
        raise UsageError(
            f"credentials file {file} is neither two lines (name, password) nor one `name:password`"
        )
    return username, password
