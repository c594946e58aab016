"""Where frames come from: `rtsp://…`, `http://…`, `/dev/video0` or a folder, under a name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, quote, unquote, urlsplit

from edge_agent.config import CameraSection
from protofleet.errors import SettingError, UsageError
from protofleet.util.extras import check_installed

Kind = Literal["rtsp", "mjpeg", "device", "folder"]
# Shorter than a device's name, so that a camera's and a region's make one level of a topic.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,29}")
SCHEMES: Mapping[str, Kind] = {"rtsp": "rtsp", "rtsps": "rtsp", "http": "mjpeg", "https": "mjpeg"}
EXAMPLE = "write it like door=rtsp://camera/stream, http://camera/mjpeg, /dev/video0 or a folder"
_DEVICE = re.compile(r"/dev/video\d+")
_HOSTS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Origin:
    """One camera; printing one shows no password."""

    name: str
    kind: Kind
    shown: str
    address: str = field(repr=False)  # what is opened, a password in it


def parse(texts: Sequence[str], logins: Mapping[str, str] | None = None) -> tuple[Origin, ...]:
    """`[name=]address` each; `logins` are `user:password` by name."""
    origins: list[Origin] = []
    for text in texts:
        origin = _origin(text, len(origins), logins or {})
        if origin.name in {other.name for other in origins}:
            raise SettingError(f"two cameras are called {origin.name!r}", EXAMPLE)
        origins.append(origin)
    for name in logins or {}:
        if name not in {origin.name for origin in origins}:
            raise SettingError(f"a login for {name!r}, but no camera is called that")
    return tuple(origins)


def cameras_of(section: CameraSection) -> tuple[Origin, ...]:
    """The cameras that are named; `SettingError` if there are none, or any cannot be."""
    logins = logins_of(Path(section.logins)) if section.logins else {}
    cameras = parse(section.sources, logins)
    if not cameras:
        raise UsageError("no camera is named", EXAMPLE)
    if any(camera.kind != "folder" for camera in cameras):
        check_installed("av", "camera", "cameras")
    check_installed("PIL", "camera", "pictures")
    return cameras


def logins_of(path: Path) -> dict[str, str]:
    """A file of lines `name user:password`; a line that begins with # says nothing."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise SettingError(f"{path}: the cameras' logins cannot be read") from None
    logins = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, login = line.strip().partition(" ")
        if ":" not in login:  # the line itself is not shown: it is a secret
            raise SettingError(f"{path}: line {number} is not of the form NAME USER:PASSWORD")
        logins[name] = login.strip()
    return logins


def _origin(text: str, number: int, logins: Mapping[str, str]) -> Origin:
    name, equals, address = text.strip().partition("=")
    if not equals or not NAME.fullmatch(name):
        # A URL's query may hold an equals sign, and a folder's name, too.
        name, address = "", text.strip()
    if "://" in address:
        return _stream(name, address, number, logins)
    if not address:
        raise SettingError(f"camera {text!r}: no address", EXAMPLE)
    if _DEVICE.fullmatch(address):
        return Origin(name or address.rpartition("/")[2], "device", address, address)
    path = Path(address).expanduser()
    if not path.is_dir():
        raise SettingError(f"camera {address!r} is neither a stream nor a folder", EXAMPLE)
    return Origin(_named(name, path.resolve().name, number), "folder", str(path), str(path))


def _stream(name: str, address: str, number: int, logins: Mapping[str, str]) -> Origin:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise SettingError("camera: the host or the port is malformed", EXAMPLE) from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise SettingError(f"camera: {parts.scheme[:20]!r} is no scheme of a camera's", EXAMPLE)
    name = _named(name, parts.hostname, number)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port is None else f"{host}:{port}"
    login = _quoted(logins.get(name), parts)
    # Neither the password nor the query, in which cameras take passwords, too.
    shown = f"{parts.scheme}://{place}{parts.path}"
    whole = parts._replace(netloc=f"{login}{place}", fragment="").geturl()
    return Origin(name, SCHEMES[parts.scheme], shown, whole)


def _named(name: str, default: str, number: int) -> str:
    if name:
        return name
    usual = _HOSTS.sub("-", default).strip("-_")[:30]
    return usual if NAME.fullmatch(usual) else f"camera-{number + 1}"


def _quoted(login: str | None, parts: SplitResult) -> str:
    """`user:password@`, as a URL has it."""
    user, password = parts.username, parts.password
    if login is not None:
        user, _, password = login.partition(":")
    elif user is not None:
        user, password = unquote(user), unquote(password or "")
    if user is None:
        return ""
    return f"{quote(user, safe='')}:{quote(password or '', safe='')}@"
