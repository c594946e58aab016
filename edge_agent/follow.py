"""Prototypes that stay fresh: the fleet's retained state on one topic, the last good one on disk, local classes on top.

Beside a bundle `B` lie `B.state.cbor`, the newest state that this device could use, and `B.enrolled.cbor`, the classes
that were enrolled here. Both have the bundle's lineage, and both may be removed at any time.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from edge_agent.inference import Classifier, Mismatch
from protofleet import channel as published
from protofleet.channel import Bank, Published
from protofleet.errors import WireError
from protofleet.logs import Log
from protofleet.prototypes import Prototypes

FIRST = 5.0  # seconds to wait for the fleet's state before a call that ends falls back to what is at hand
LARGEST = 64 << 20


def state_file(bundle: Path) -> Path:
    """The newest state this device could use."""
    return bundle.with_name(bundle.name + ".state.cbor")


def enrolled_file(bundle: Path) -> Path:
    """The classes that were enrolled on this device."""
    return bundle.with_name(bundle.name + ".enrolled.cbor")


def settled(classifier: Classifier, bundle: Path) -> None:
    """Use the newest state on disk, where it fits, and the classes that were enrolled here."""
    held = _read(state_file(bundle))
    if held is not None and held.bank.about.lineage in classifier.bundle.manifest.lineages:
        take(classifier, bundle, held)
    else:
        take(classifier, bundle, classifier.bundle.published)


def take(classifier: Classifier, bundle: Path, state: Published) -> None:
    """Classify by this state and the classes that were enrolled here and are not in it."""
    local = _read(enrolled_file(bundle))
    classifier.use(state.bank if local is None else joined(state.bank, local.bank), state.digest)


def joined(bank: Bank, local: Bank) -> Bank:
    """The fleet's classes, and after them those that only this device has."""
    mine, theirs = local.points, bank.points
    if not isinstance(mine, Prototypes) or not isinstance(theirs, Prototypes):
        return bank
    if local.about.lineage != bank.about.lineage:
        return bank
    fresh = [name for name in local.about.classes if name not in _named(bank)]
    if not fresh:
        return bank
    names = (*bank.about.classes, *(name for name in fresh if name not in bank.about.classes))
    ids = {local.about.classes.index(name): names.index(name) for name in fresh}
    kept = mine.only(list(ids))
    classes = np.concatenate([theirs.classes, [ids[int(c)] for c in kept.classes]])
    points = Prototypes(classes, np.concatenate([theirs.vectors, kept.vectors]))
    return Bank(replace(bank.about, classes=names), points)


def _named(bank: Bank) -> set[str]:
    """Classes that have points: a name alone does not keep a device's own class out."""
    return {bank.about.classes[int(c)] for c in np.unique(bank.points.classes)}


def write(path: Path, data: bytes) -> None:
    """Whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _read(path: Path) -> Published | None:
    try:
        return published.read(path.read_bytes())
    except (OSError, WireError):
        return None  # none yet, or damaged: the bundle has its own


@contextmanager
def following(
    classifier: Classifier, bundle: Path, url: str, channel: str, fleet: str | None, credentials: Path | None,
    *, wait: bool, log: Log | None = None,
) -> Iterator[None]:  # fmt: skip
    """Keep the classifier's prototypes fresh for as long as the block lasts."""
    from protofleet.mqtt.address import Address
    from protofleet.mqtt.events import Arrival
    from protofleet.mqtt.link import Link
    from protofleet.mqtt.topics import Topics, check_name

    log = log or Log(sys.stderr)
    topic = Topics(fleet or classifier.bundle.manifest.fleet).proto(check_name("channel", channel))
    address = Address.parse(url, credentials_file=credentials, environ=os.environ)
    link = Link(
        address, f"infer-{secrets.token_hex(6)}", rng=random.Random(), clean_start=True, session_expiry=0,
        max_packet=LARGEST,
    )  # fmt: skip
    settled(classifier, bundle)
    fresh, stop = threading.Event(), threading.Event()

    def listen() -> None:
        while not stop.is_set():
            for event in link.poll(1.0):
                if isinstance(event, Arrival):
                    if event.payload:
                        arrived(classifier, bundle, event.payload, log)
                        fresh.set()
                    link.ack(event)

    link.subscribe([(topic, 1)])
    link.start()
    thread = threading.Thread(target=listen, name="follow", daemon=True)
    thread.start()
    try:
        if wait and not fresh.wait(FIRST):
            log.warning("the fleet's prototypes did not come in time; those at hand are used", broker=address)
        yield
    finally:
        stop.set()
        link.stop(patience=1.0)
        thread.join(3.0)


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
