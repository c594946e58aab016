"""A bundle as a device reads it: a folder or one `.pfb` zip, checked against its manifest before
anything is used.

No torch here. docs/bundle.md has the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from protofleet.contract import Input
from protofleet.errors import SettingError, WireError
from protofleet.exchange import archive, npz, published
from protofleet.exchange.archive import MANIFEST, MODEL, PROTOTYPES, BundleError, Contents
from protofleet.exchange.published import Published
from protofleet.settings.fields import from_plain, setting

CALIBRATION, DRIFT = "calibration.npz", "drift.npz"

By = Literal["prototypes", "mixtures", "head"]
Precision = Literal["fp32", "fp16", "int8"]
# Each pixel the mean over a triangle as wide as what it stands for: Pillow's BILINEAR. A filter
# that looks at four neighbours only, whatever the size of a photo, costs points (docs/devices.md).
Resize = Literal["", "antialiased-bilinear"]
ANTIALIASED: Resize = "antialiased-bilinear"

# Of the self-test, as a share of the largest score: what other processors round differently. A
# manifest may ask for less than that and not for more.
TOLERANCE: Mapping[Precision, float] = {"fp32": 1e-3, "fp16": 1e-2, "int8": 1e-1}


@dataclass(frozen=True)
class Reading:
    """What points mean to the graph. A cosine is the Euclidean distance of unit vectors; the graph
    makes them so.
    """

    by: By
    metric: Literal["euclidean", "cosine"] = "euclidean"
    of_unit: bool = False
    through: str = ""

    def takes(self, kind: str) -> bool:
        """Whether points of this kind can be compared with: a head's rows read plain features, too,
        which is what an extractor gives.
        """
        plain = self == Reading("prototypes")
        return kind == self.by or (kind == "head" and plain)


@dataclass(frozen=True)
class Unknown:
    """Rejection of what is none of the classes: the share of calibration samples that stays, and
    where that cuts.
    """

    keep: float = setting(0.99, "share of calibration samples that stays", low=0, high=1)
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
    resize: Resize = ""  # how a photo gets the input's size; nothing where inputs are no images


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
            return published.read(self.files[PROTOTYPES])
        except WireError as error:
            raise BundleError(f"{PROTOTYPES}: {error.words}") from None

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of one of its `.npz` files; empty where there is none."""
        if name not in self.files:
            return {}
        try:
            return npz.read(self.files[name])
        except WireError as error:
            raise BundleError(f"{name}: {error.words}") from None


def open_bundle(path: Path) -> Bundle:
    """Read and check; anything wrong is one `BundleError`."""
    return _bundle(archive.read(path), str(path))


def unpacked(data: bytes, what: str) -> Bundle:
    """The same from the bytes of a `.pfb`, which an error calls `what`."""
    return _bundle(archive.unpack(data, what), what)


def _bundle(contents: Contents, what: str) -> Bundle:
    try:
        manifest = from_plain(Manifest, contents.document)
    except SettingError as error:
        raise BundleError(f"{MANIFEST}: {str(error)[:160]}") from None
    if not manifest.lineages:
        raise BundleError(f"{MANIFEST}: it names no lineage")
    if not 0 <= manifest.tolerance <= TOLERANCE[manifest.precision]:
        raise BundleError(
            f"{MANIFEST}: a tolerance of {manifest.tolerance:g} for the self-test, at most "
            f"{TOLERANCE[manifest.precision]:g} is due for {manifest.precision}"
        )
    bundle = Bundle(manifest, contents.digest, contents.files)
    # The hashes vouch for each file, not for their belonging together: prototypes of another state
    # would fit the graph and pass its self-test.
    if bundle.published.digest != manifest.state:
        raise BundleError(f"{what}: {PROTOTYPES} is not the state that the manifest names")
    return bundle
