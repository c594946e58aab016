"""A round of summaries only: devices of one frozen extractor send class means, the fleet's are
their weighted means.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode

import numpy as np

from coordinator.config import UploadLimits
from coordinator.journal.journal import Journal
from coordinator.uploads.validation import Refusal, plausible
from protofleet.exchange import published
from protofleet.exchange.published import Bank
from protofleet.values.prototypes import Prototypes
from protofleet.wire.codes import Reason

METHOD = "summarise"  # what an offer of class means calls itself


def refusal(offer: Bank, bank: Bank, limits: UploadLimits, *, frozen: bool) -> Refusal | None:
    """Why a device's summary cannot count."""
    if not frozen:
        return Refusal(
            Reason.NOT_FROZEN,
            "there is no extractor that all devices share: see `coordinator freeze`",
        )
    points = offer.points
    if not isinstance(points, Prototypes) or points.counts is None or not points.counts.all():
        return Refusal(Reason.COUNTS, "class means with counts are due")
    unknown = [name for name in offer.about.classes if name not in bank.about.classes]
    if unknown:
        return Refusal(Reason.CLASS, f"{unknown[0]!r} is no class of the fleet; enrol it")
    if len(points.classes) > len(offer.about.classes):
        return Refusal(Reason.MANY, "one mean a class is due")
    # The same door as for uploads: of weighted means one device's could otherwise be all there is.
    return plausible(limits, points)


def replace(journal: Journal, agent: str, payload: bytes) -> None:
    """One summary a device: a newer one replaces it."""
    messages = {**_by_agent(journal), agent: b64encode(payload).decode()}
    journal.set_meta("summaries", json.dumps(messages))


def newest(journal: Journal, agent: str) -> bytes | None:
    """What this device sent last."""
    message = _by_agent(journal).get(agent)
    return None if message is None else b64decode(message)


def forget(journal: Journal) -> None:
    """Another extractor: nothing of the old one means anything."""
    journal.set_meta("summaries", "{}")


def senders(journal: Journal) -> list[str]:
    """Which devices sent one."""
    return sorted(_by_agent(journal))


def with_summaries(journal: Journal, bank: Bank) -> Bank:
    """The bank, with the devices' weighted means in place of its own for every class they have."""
    sums: dict[int, tuple[np.ndarray[tuple[int], np.dtype[np.float64]], int]] = {}
    points = bank.points
    # By name, since these are sums of floats: in another order they would have other last bits.
    for _, message in sorted(_by_agent(journal).items()):
        offer = published.read(b64decode(message), "enrol").bank
        means = offer.points
        if (
            offer.about.lineage != bank.about.lineage
            or not isinstance(means, Prototypes)
            or means.counts is None
        ):
            continue
        vectors = means.vectors.astype(np.float64)
        for c, mean, n in zip(means.classes, vectors, means.counts, strict=True):
            at = bank.about.classes.index(offer.about.classes[int(c)])
            total, samples = sums.get(at, (np.zeros(means.dim), 0))
            sums[at] = (total + n * mean, samples + int(n))
    if not sums or not isinstance(points, Prototypes):
        return bank
    others = points.only(np.setdiff1d(points.classes, list(sums)))
    fleet = np.stack([total / samples for total, samples in sums.values()]).astype(np.float32)
    classes = np.concatenate([others.classes, np.array(list(sums), np.int64)])
    return Bank(bank.about, Prototypes(classes, np.concatenate([others.vectors, fleet])))


def _by_agent(journal: Journal) -> dict[str, str]:
    messages: dict[str, str] = json.loads(journal.meta("summaries") or "{}")
    return messages
