"""A bundle as a device reads it: a folder or one `.pfb` zip, checked against its manifest before anything is used.

No torch here. docs/bundle.md has the format.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from protofleet import channel
from protofleet.channel import Published
from protofleet.errors import FleetError, SettingError, WireError
from protofleet.inputs import Input
from protofleet.settings import from_plain

SCHEMA = "protofleet-bundle/1"
MANIFEST, MODEL, PROTOTYPES = "manifest.json", "model.onnx", "prototypes.cbor"
SELFTEST, CALIBRATION, DRIFT = "selftest.npz", "calibration.npz", "drift.npz"
SUFFIX = ".pfb"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_LARGEST = 2 << 30

By = Literal["prototypes", "mixtures", "head"]
Precision = Literal["fp32", "fp16", "int8"]


class BundleError(FleetError):
    """A bundle that must not be used."""

    code = "bad-bundle"


@dataclass(frozen=True)
class Reading:
    """What points mean to the graph. A cosine is the Euclidean distance of unit vectors; the graph makes them so."""

    by: By
    metric: Literal["euclidean", "cosine"] = "euclidean"
    of_unit: bool = False
    through: str = ""


@dataclass(frozen=True)
class Unknown:
    """Rejection of what is none of the classes: the share of calibration samples that stays, and where that cuts."""

    keep: float = 0.99
    threshold: float | None = None


@dataclass(frozen=True)
class Manifest:
    """What a bundle says of itself."""

    schema: str
    input: Input
    embedding: int  # the length d of what the graph calls `feature`
    classes: tuple[str, ...]
    reading: Reading
    lineages: tuple[str, ...]  # prototypes of any of these fit
    method: str
    backbone: str
    fleet: str
    run: str
    round: int
    state: str  # digest of the prototypes that came with it
    precision: Precision
    tolerance: float  # of the self-test, as a share of the largest expected score
    files: Mapping[str, str] = field(default_factory=dict)  # name -> sha256
    versions: Mapping[str, str] = field(default_factory=dict)
    accuracy: Mapping[str, float] = field(default_factory=dict)
    unknown: Unknown = Unknown()


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle whose files have the hashes of its manifest; `digest` is the manifest's own."""

    manifest: Manifest
    digest: str
    files: Mapping[str, bytes]

    @property
    def model(self) -> bytes:
        """The graph whose prototypes are inputs."""
        return self.files[MODEL]

    @property
    def published(self) -> Published:
        """The prototypes that came with it."""
        try:
            return channel.read(self.files[PROTOTYPES])
        except WireError as error:
            raise BundleError(f"{PROTOTYPES}: {error.words}") from None

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of one of its `.npz` files; empty where there is none."""
        if name not in self.files:
            return {}
        try:
            with np.load(io.BytesIO(self.files[name]), allow_pickle=False) as stored:
                return dict(stored)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise BundleError(f"{name}: not readable ({error})") from None


def open_bundle(path: Path) -> Bundle:
    """Read and check; anything wrong is one `BundleError`."""
    try:
        if path.is_dir():
            return _checked(path, lambda name: (path / name).read_bytes())
        with zipfile.ZipFile(path) as packed:
            return _checked(path, lambda name: _unzipped(packed, name))
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name if error.filename else str(path)
        raise BundleError(f"{path}: {missing} is missing", "`protofleet export` writes a bundle") from None
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise BundleError(f"{path}: neither a bundle's folder nor a {SUFFIX} file ({error})") from None


def manifest_of(data: bytes) -> Manifest:
    """The manifest's JSON against its schema."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise BundleError(f"{MANIFEST}: not JSON") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        told = document.get("schema") if isinstance(document, dict) else None
        raise BundleError(
            f"{MANIFEST}: schema {str(told)[:60]!r} is not known here, only {SCHEMA!r}", "update edge-agent"
        )
    try:
        manifest = from_plain(Manifest, document)
    except SettingError as error:
        raise BundleError(f"{MANIFEST}: {error}") from None
    if missing := [name for name in (MODEL, PROTOTYPES, SELFTEST) if name not in manifest.files]:
        raise BundleError(f"{MANIFEST}: it names no {missing[0]}")
    if bad := [name for name in manifest.files if not _NAME.fullmatch(name)]:
        raise BundleError(f"{MANIFEST}: {bad[0][:60]!r} is no file name of a bundle")
    return manifest


def _checked(path: Path, read: Any) -> Bundle:
    text = read(MANIFEST)
    manifest = manifest_of(text)
    files: dict[str, bytes] = {}
    for name, due in manifest.files.items():
        data = read(name)
        if sha256(data).hexdigest() != due:
            raise BundleError(f"{path}: {name} is damaged (its hash is not the manifest's)", "fetch the bundle again")
        files[name] = data
    bundle = Bundle(manifest, sha256(text).hexdigest(), files)
    if bundle.published.digest != manifest.state:
        raise BundleError(f"{path}: {PROTOTYPES} is not the state that the manifest names")
    return bundle


def _unzipped(packed: zipfile.ZipFile, name: str) -> bytes:
    if packed.getinfo(name).file_size > _LARGEST:
        raise BundleError(f"{name}: larger than any bundle's")
    return packed.read(name)
