"""A bundle whose extractor is the whole fleet's: checked when an operator brings it, kept for
devices that fetch it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from protofleet.contract import Input
from protofleet.errors import DataError, UsageError, WireError
from protofleet.exchange import archive, published
from protofleet.exchange.archive import HELD_OUT, LARGEST_BUNDLE, PROTOTYPES, REPORT, BundleError
from protofleet.settings.fields import from_plain
from protofleet.statistics.adoption import Standard


@dataclass(frozen=True)
class FrozenExtractor:
    """Its name, the sha256 and size of the bytes that travel, and the prototypes that it came
    with.
    """

    bundle: str
    blob: str
    size: int
    prototypes: bytes
    held_out: Standard  # what its own fleet counted of it, where it says so


def input_of(path: Path) -> Input:
    """What a bundle's extractor is fed with."""
    document = archive.read(path).document.get("input")
    if not isinstance(document, dict):
        raise BundleError(f"{path.name}: it does not say what it is fed with")
    return from_plain(Input, document, f"{path.name}: input")


def read_bundle(path: Path) -> tuple[FrozenExtractor, bytes]:
    """A `.pfb` on disk and its bytes, if the fleet can use it."""
    try:
        if path.stat().st_size > LARGEST_BUNDLE:
            raise BundleError(
                f"{path.name}: more than {LARGEST_BUNDLE >> 20} MiB",
                "leave further forms of it out",
            )
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    bundle = archive.unpack(data, path.name)
    prototypes = bundle.files[PROTOTYPES]
    try:
        state = published.read(prototypes)
    except WireError as error:
        raise BundleError(f"{PROTOTYPES}: {error.words}") from None
    # Else devices would score with prototypes of another state than the one they fetched.
    if state.digest != bundle.document.get("state"):
        raise BundleError(f"{path.name}: {PROTOTYPES} is not the state that the manifest names")
    lineage = state.bank.about.lineage
    if not lineage.startswith("extractor:"):
        raise UsageError(
            f"this bundle's prototypes are of {lineage[:60]}", "export it with --freeze"
        )
    # An extractor names no class at all: the devices bring theirs.
    if state.bank.about.classes and not len(state.bank.points.classes):
        raise UsageError("there is not one prototype in this bundle")
    counted = _held_out(bundle.files.get(REPORT), path.name)
    blob = sha256(data).hexdigest()
    return FrozenExtractor(bundle.digest, blob, len(data), prototypes, counted), data


def _held_out(report: bytes | None, name: str) -> Standard:
    try:
        document = json.loads(report or b"{}")
        counted = document.get(HELD_OUT, {})
    except (ValueError, AttributeError, RecursionError):
        raise BundleError(f"{name}: {REPORT} is no JSON document") from None
    return from_plain(Standard, counted, f"{name}: {HELD_OUT}")
