"""A round of summaries only: devices of one frozen extractor send class means, the fleet's are
their weighted means.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode

import numpy as np

from coordinator.journal.journal import Journal
from coordinator.uploads.validation import Refusal
from protofleet.exchange import published
from protofleet.exchange.published import Bank
from protofleet.values.prototypes import Prototypes

METHOD = "summarise"  # what an offer of class means calls itself


def wrong(offer: Bank, bank: Bank, *, frozen: bool) -> Refusal | None:
    """Why a device's summary cannot count."""
    if not frozen:
        return Refusal(
            "not-frozen", "there is no extractor that all devices share: see `coordinator freeze`"
        )
    points = offer.points
    if not isinstance(points, Prototypes) or points.counts is None or not points.counts.all():
        return Refusal("counts", "class means with counts are due")
    unknown = [name for name in offer.about.classes if name not in bank.about.classes]
    return (
        Refusal("class", f"{unknown[0]!r} is no class of the fleet; enrol it") if unknown else None
    )


def keep(journal: Journal, agent: str, payload: bytes) -> None:
    """One summary a device: a newer one replaces it."""
    journal.set_meta(
        "summaries", json.dumps({**_held(journal), agent: b64encode(payload).decode()})
    )


def held(journal: Journal, agent: str) -> bytes | None:
    """What this device sent last."""
    found = _held(journal).get(agent)
    return None if found is None else b64decode(found)


def forget(journal: Journal) -> None:
    """Another extractor: nothing of the old one means anything."""
    journal.set_meta("summaries", "{}")


def agents(journal: Journal) -> list[str]:
    """Which devices sent one."""
    return sorted(_held(journal))


def applied(journal: Journal, bank: Bank) -> Bank:
    """The bank, with the devices' weighted means in place of its own for every class they have."""
    sums: dict[int, tuple[np.ndarray[tuple[int], np.dtype[np.float64]], int]] = {}
    points = bank.points
    sums_of = _held(journal)
    for agent in sorted(sums_of):
        offer = published.read(b64decode(sums_of[agent]), "enrol").bank
        sent = offer.points
        if (
            offer.about.lineage != bank.about.lineage
            or not isinstance(sent, Prototypes)
            or sent.counts is None
        ):
            continue
        for c, mean, n in zip(
            sent.classes, sent.vectors.astype(np.float64), sent.counts, strict=True
        ):
            at = bank.about.classes.index(offer.about.classes[int(c)])
            total, samples = sums.get(at, (np.zeros(sent.dim), 0))
            sums[at] = (total + n * mean, samples + int(n))
    if not sums or not isinstance(points, Prototypes):
        return bank
    kept = points.only(np.setdiff1d(points.classes, list(sums)))
    means = np.stack([total / samples for total, samples in sums.values()]).astype(np.float32)
    classes = np.concatenate([kept.classes, np.array(list(sums), np.int64)])
    return Bank(bank.about, Prototypes(classes, np.concatenate([kept.vectors, means])))


def _held(journal: Journal) -> dict[str, str]:
    held: dict[str, str] = json.loads(journal.meta("summaries") or "{}")
    return held
