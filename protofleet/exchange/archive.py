"""A bundle's files, in a folder or in one `.pfb` zip: read and held to the hashes of the manifest,
or packed.

What the files mean is `edge_agent.inference.bundle`'s; whoever only keeps a bundle or passes it on
needs no more than this.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from protofleet.errors import FleetError
from protofleet.exchange import zipped

SCHEMA = "protofleet-bundle/1"
MANIFEST, MODEL, PROTOTYPES, SELFTEST = (
    "manifest.json",
    "model.onnx",
    "prototypes.cbor",
    "selftest.npz",
)
REPORT, HELD_OUT = "report.json", "held_out"  # and what a fleet counted, in it
SUFFIX = ".pfb"
LARGEST_BUNDLE = 256 << 20  # bytes of a packed bundle that goes over the wire
_LARGEST = 2 << 30  # bytes of its files
_LONGEST = 4 << 20  # bytes of its manifest, which is read before anything is known of it
# No slash and no dot in front: a manifest comes over the wire, and its names become paths.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")

_UNREADABLE = (*zipped.UNREADABLE, KeyError)


class BundleError(FleetError):
    """A bundle that must not be used."""

    code = "bad-bundle"


@dataclass(frozen=True, eq=False)
class Contents:
    """The manifest as a document, and every file it names; `digest` is the manifest's own and the
    bundle's name.
    """

    document: Mapping[str, Any]
    digest: str
    files: Mapping[str, bytes]


def read(path: Path) -> Contents:
    """From disk; anything wrong is one `BundleError`."""
    try:
        if path.is_dir():
            return _checked(str(path), lambda name: (path / name).read_bytes())
        with path.open("rb") as file:
            return _unpacked(str(path), zipped.opened(file, _LARGEST))
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name if error.filename else str(path)
        raise BundleError(
            f"{path}: {missing} is missing", "`protofleet export` writes a bundle"
        ) from None
    except _UNREADABLE as error:
        raise BundleError(
            f"{path}: neither a bundle's folder nor a {SUFFIX} file ({error})"
        ) from None


def unpack(data: bytes, what: str) -> Contents:
    """From the bytes of a `.pfb`, which an error calls `what`."""
    try:
        return _unpacked(what, zipped.of_bytes(data, _LARGEST))
    except _UNREADABLE as error:
        raise BundleError(f"{what}: not a {SUFFIX} file ({error})") from None


def name_of(path: Path) -> str:
    """The name of a `.pfb` on disk; empty where there is none that could be opened."""
    try:
        with path.open("rb") as file:
            packed = zipped.opened(file, _LARGEST)
            return sha256(packed.read(MANIFEST, _LONGEST)).hexdigest()
    except _UNREADABLE:
        return ""


def pack(files: Mapping[str, bytes]) -> bytes:
    """One `.pfb`, the manifest among the files; equal files have equal bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            # The year zip begins with: with a time of ours, equal files would not be equal bytes.
            packed.writestr(
                zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED
            )
    return out.getvalue()


def packed_bytes(path: Path) -> bytes:
    """A bundle on disk as one `.pfb`, unchecked."""
    try:
        if not path.is_dir():
            return path.read_bytes()
        names = [MANIFEST, *json.loads((path / MANIFEST).read_bytes())["files"]]
        if bad := [name for name in names if not _NAME.fullmatch(name)]:
            raise BundleError(f"{MANIFEST}: {bad[0][:60]!r} is no file name of a bundle")
        return pack({name: (path / name).read_bytes() for name in names})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(
            f"{path}: not a bundle ({error})", "`protofleet export` writes one"
        ) from None


def _unpacked(what: str, packed: zipped.Zipped) -> Contents:
    return _checked(what, lambda n: packed.read(n, _LONGEST if n == MANIFEST else None))


def _checked(what: str, load: Callable[[str], bytes]) -> Contents:
    text = load(MANIFEST)
    document = _document(text)
    files: dict[str, bytes] = {}
    for name, digest in document["files"].items():
        data = load(name)
        if sha256(data).hexdigest() != digest:
            raise BundleError(
                f"{what}: {name} is damaged (its hash is not the manifest's)",
                "fetch the bundle again",
            )
        files[name] = data
        if sum(map(len, files.values())) > _LARGEST:
            raise BundleError(f"{what}: larger than any bundle")
    return Contents(document, sha256(text).hexdigest(), files)


def _document(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise BundleError(f"{MANIFEST}: not JSON") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        schema = document.get("schema") if isinstance(document, dict) else None
        raise BundleError(
            f"{MANIFEST}: schema {str(schema)[:60]!r} is not known here, only {SCHEMA!r}",
            "update edge-agent",
        )
    files = document.get("files")
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        raise BundleError(f"{MANIFEST}: files with their hashes are due")
    if missing := [name for name in (MODEL, PROTOTYPES, SELFTEST) if name not in files]:
        raise BundleError(f"{MANIFEST}: it names no {missing[0]}")
    if bad := [name for name in files if not _NAME.fullmatch(name)]:
        raise BundleError(f"{MANIFEST}: {bad[0][:60]!r} is no file name of a bundle")
    if len(files) >= zipped.ENTRIES:
        raise BundleError(f"{MANIFEST}: it names {len(files)} files")
    return document
