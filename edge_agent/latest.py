"""The newest prototypes that a device could use, on disk beside its bundle, and the classes that were enrolled on it.

Beside a bundle `B` lie `B.state.cbor`, the fleet's, and `B.enrolled.cbor`, the device's own. Both have the bundle's
lineage, and both may be removed at any time.
"""

from __future__ import annotations

import os
from pathlib import Path

from edge_agent.inference import Classifier, Mismatch
from protofleet import channel as published
from protofleet.channel import Published
from protofleet.errors import WireError
from protofleet.logs import Log


def state_file(bundle: Path) -> Path:
    """The newest state this device could use."""
    return bundle.with_name(bundle.name + ".state.cbor")


def enrolled_file(bundle: Path) -> Path:
    """The classes that were enrolled on this device."""
    return bundle.with_name(bundle.name + ".enrolled.cbor")


def settled(classifier: Classifier, bundle: Path) -> None:
    """Use the newest state on disk, where it fits, and the classes that were enrolled here."""
    held = read(state_file(bundle))
    if held is not None and held.bank.about.lineage in classifier.bundle.manifest.lineages:
        take(classifier, bundle, held)
    else:
        take(classifier, bundle, classifier.bundle.published)


def take(classifier: Classifier, bundle: Path, state: Published) -> None:
    """Classify by this state and the classes that were enrolled here and are not in it."""
    local = read(enrolled_file(bundle))
    classifier.use(state.bank if local is None else published.joined(state.bank, local.bank), state.digest)


def write(path: Path, data: bytes) -> None:
    """Whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def read(path: Path) -> Published | None:
    try:
        return published.read(path.read_bytes())
    except (OSError, WireError):
        return None  # none yet, or damaged: the bundle has its own


def arrived(classifier: Classifier, bundle: Path, payload: bytes, log: Log) -> None:
    """A state came: use it and remember it, or say why not and go on with what there is."""
    try:
        state = published.read(payload)
        take(classifier, bundle, state)
    except (WireError, Mismatch) as error:
        log.warning(f"the fleet's prototypes cannot be used: {error}")
        return
    try:
        write(state_file(bundle), payload)
    except OSError as error:
        log.warning(f"{state_file(bundle)} cannot be written: {error.strerror}")
    log.info("new prototypes", state=state.digest[:16], classes=len(classifier.loaded.labels))
