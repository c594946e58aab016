"""A new class from a few photos: embedded, used at once on this device, and offered to the
fleet.
"""

from __future__ import annotations

import random
import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from protofleet import wire
from protofleet.errors import LinkError, UsageError, WireError
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.util.files import write_whole
from protofleet.values.prototypes import Prototypes
from protofleet.wire import Envelope

if TYPE_CHECKING:
    from protofleet.mqtt.address import Address

TOO_NEAR = 0.25  # of what is usual between classes
PATIENCE, AGAIN = 10.0, 1.0  # seconds for an answer, and between two sendings of one offer


@dataclass(frozen=True, eq=False)
class Enrolment:
    """A class as its photos show it, and what it lies nearest to."""

    bank: Bank  # this class alone
    photos: int
    nearest: str  # nothing for the first class there is
    share: float  # how near, as a share of what is usual between classes

    @property
    def too_near(self) -> bool:
        """Whether the two will be mixed up."""
        return self.share < TOO_NEAR


@dataclass(frozen=True)
class OfferAnswer:
    """What the coordinator made of an offer."""

    status: str
    words: str


def embedded(classifier: Classifier, label: str, images: NDArray[Any]) -> Enrolment:
    """The mean of the photos' embeddings beside the classes there are."""
    bank = classifier.loaded.bank
    if not isinstance(bank.points, Prototypes):
        raise UsageError(f"this bundle classifies by {bank.kind}: new classes need prototypes")
    if label in classifier.loaded.labels:
        raise UsageError(
            f"there is a class {label!r} already", "forget it first, or take another name"
        )
    now = classifier.in_use
    mean = now.engine.as_published([label], now.look(images).features.mean(0, keepdims=True))
    # To what a state holds on the wire: the class is compared here with what others will compare.
    mean = mean.astype(np.float16).astype(np.float32)
    index, share = published.nearest(bank.points, mean)
    near = bank.about.classes[index] if index >= 0 else ""
    one = Bank(
        About(bank.about.lineage, (label,)),
        Prototypes(np.array([0]), mean, np.array([len(images)])),
    )
    return Enrolment(one, len(images), near, share)


def summarised(
    classifier: Classifier, x: NDArray[Any], y: NDArray[np.int64], names: tuple[str, ...]
) -> tuple[Bank, list[str]]:
    """Means and counts of a device's own samples of every class there is, and which of its classes
    are none.
    """
    now = classifier.in_use
    fleets = now.loaded.labels
    classes = [int(c) for c in np.unique(y) if names[c] in fleets]
    left_out = [names[c] for c in np.unique(y) if names[c] not in fleets]
    rows = np.isin(y, classes)
    # Means in float64: of many samples a float32 sum would lose what sets two devices apart.
    features, labels = now.look(x[rows]).features.astype(np.float64), y[rows]
    about = About(now.loaded.bank.about.lineage, tuple(names[c] for c in classes))
    vectors = np.zeros((0, features.shape[1]), np.float32)
    if classes:
        vectors = now.engine.as_published(
            about.classes, np.stack([features[labels == c].mean(0) for c in classes])
        )
    counts = np.array([(labels == c).sum() for c in classes], np.int64)
    return Bank(about, Prototypes(np.arange(len(classes)), vectors, counts)), left_out


def keep(classifier: Classifier, bundle: Path, new: Enrolment) -> None:
    """Use it at once, here and at every later start."""
    path = cache.enrolled_file(bundle, new.bank.about.lineage)
    before = cache.read(path)
    bank = new.bank if before is None else published.joined(before.bank, new.bank)
    write_whole(path, _local(classifier, bank))
    cache.settled(classifier, bundle)


def forget(classifier: Classifier, bundle: Path, label: str) -> bool:
    """Take back a class that was enrolled here; whether there was one."""
    path = cache.enrolled_file(bundle, classifier.loaded.bank.about.lineage)
    enrolled = cache.read(path)
    if enrolled is None or label not in enrolled.bank.about.classes:
        return False
    names, points = enrolled.bank.about.classes, enrolled.bank.points
    assert isinstance(points, Prototypes)  # `embedded` makes nothing else
    others = [name for name in names if name != label]
    if not others:
        path.unlink()
        return True
    # The name goes, too, and the ids of those behind it move up.
    rows = points.only([names.index(name) for name in others])
    ids = np.array([others.index(names[int(c)]) for c in rows.classes], np.int64)
    about = replace(enrolled.bank.about, classes=tuple(others))
    write_whole(path, _local(classifier, Bank(about, Prototypes(ids, rows.vectors, rows.counts))))
    return True


def offer(
    classifier: Classifier,
    bank: Bank,
    broker: Address,
    fleet: str | None,
    agent: str,
    *,
    method: str | None = None,
    patience: float = PATIENCE,
) -> OfferAnswer:
    """Send it to the coordinator and wait for the receipt."""
    from protofleet.mqtt.link.events import Arrival, Refused
    from protofleet.mqtt.link.link import Link, LinkSettings
    from protofleet.mqtt.topics import Topics, check_name

    topics = Topics(fleet or classifier.bundle.manifest.fleet)
    topic = topics.upload(check_name("device", agent), 0)
    payload = message(classifier, bank, topics.fleet, agent, method)
    digest = wire.decode(payload).digest
    link = Link(
        broker,
        f"{agent[:40]}-enrol-{secrets.token_hex(4)}",
        LinkSettings(clean_start=True, session_expiry=0),
        rng=random.Random(),
    )
    link.subscribe([(topics.receipt(agent), 1)])
    link.start()
    try:
        end = time.monotonic() + patience
        again = 0.0
        while (now := time.monotonic()) < end:
            # Receipts may be lost; the same offer gets the same answer.
            if link.connected and now >= again:
                link.publish(topic, payload)
                again = now + AGAIN
            for event in link.poll(0.2 if link.connected else AGAIN):
                if isinstance(event, Refused):
                    raise LinkError(f"{broker} refuses this device: {event.reason}")
                if isinstance(event, Arrival):
                    link.ack(event)
                    answer = _receipt(event.payload, digest)
                    if answer is not None:
                        return answer
    finally:
        link.stop(patience=1.0)
    raise LinkError(
        f"no answer from the coordinator of {topics.fleet} in {patience:g} s", "is it running?"
    )


def message(
    classifier: Classifier, bank: Bank, fleet: str, agent: str, method: str | None
) -> bytes:
    """An offer as it is sent."""
    run, boot = classifier.bundle.manifest.run, secrets.token_hex(8)
    return published.write(
        bank, Envelope("enrol", fleet, run, agent=agent, boot=boot, method=method), "float32"
    )


# An offer is of round 0, which no training has: the coordinator answers it like an upload. Where it
# could not read the offer it has no digest to name.
def _receipt(payload: bytes, digest: str) -> OfferAnswer | None:
    try:
        message = wire.decode(payload)
    except WireError:
        return None
    if message.envelope.t != "receipt" or message.body.get("digest") not in (digest, ""):
        return None
    if message.body.get("round") != 0:
        return None
    return OfferAnswer(str(message.body.get("status")), str(message.body.get("words", "")))


def _local(classifier: Classifier, bank: Bank) -> bytes:
    return published.write(bank, Envelope("global", classifier.bundle.manifest.fleet), "float32")
