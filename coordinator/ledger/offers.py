"""What devices may bring: classes that fit, are plausible, are not there already, and are not too
many. Pure functions of an offer and the book.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping

import numpy as np

from coordinator.ledger.books import Book
from coordinator.uploads.validation import Refusal
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Prototypes
from protofleet.wire.codes import Reason

LONGEST_NAME = 64
OFFERED, BROUGHT, ENROLLED = 16, 64, 256  # classes in one offer, of one device, of all devices
TOO_NEAR = 0.25  # of what is usual between classes
ROWS = 4  # prototypes a class that is enrolled; `edge-agent enroll` makes one


def misfit(offer: Bank, points: Prototypes, bank: Bank, present: Prototypes) -> Refusal | None:
    """Whether an offer is of other embeddings, sizes or names than there can be."""
    if offer.about.lineage != bank.about.lineage:
        return Refusal(
            Reason.OTHER_LINEAGE,
            f"embeddings of another extractor: here it is {bank.about.lineage[:60]}",
        )
    if points.dim != present.dim or set(points.classes.tolist()) != set(
        range(len(offer.about.classes))
    ):
        return Refusal(
            Reason.DIMENSION,
            f"prototypes of {present.dim} numbers are due for every class that is named",
        )
    if not all(name.isprintable() and len(name) <= LONGEST_NAME for name in offer.about.classes):
        return Refusal(
            Reason.BAD_NAME, f"class names are printable and of at most {LONGEST_NAME} letters"
        )
    return None


def sender(message: str) -> str:
    """Which device brought this class; empty if that was not remembered yet."""
    return published.read(b64decode(message), "enrol").envelope.agent or ""


def single(offer: Bank, name: str) -> Bank:
    """One class of an offer by itself."""
    assert isinstance(offer.points, Prototypes)
    rows = offer.points.only([offer.about.classes.index(name)])
    points = Prototypes(np.zeros(len(rows.classes), np.int64), rows.vectors)
    return Bank(About(offer.about.lineage, (name,)), points)


def holds(messages: Mapping[str, str], offer: Bank) -> bool:
    """Whether all of an offer is there already, with the very same prototypes."""
    return all(
        name in messages and unpacked(messages[name]) == single(offer, name)
        for name in offer.about.classes
    )


def together(banks: Iterable[Bank], like: Bank) -> Bank | None:
    """Enrolled classes, each once, as one bank; only those that live among these embeddings. One by
    one, each would cost a copy of all before it.
    """
    if not isinstance(like.points, Prototypes):
        return None
    dim = like.points.dim
    fitting = [
        (bank.about.classes[0], bank.points.vectors)
        for bank in banks
        if bank.about.lineage == like.about.lineage
        and isinstance(bank.points, Prototypes)
        and bank.points.dim == dim
    ]
    if not fitting:
        return None
    names = tuple(name for name, _ in fitting)
    ids = np.repeat(np.arange(len(names)), [len(rows) for _, rows in fitting])
    vectors = np.concatenate([rows for _, rows in fitting])
    return Bank(About(like.about.lineage, names), Prototypes(ids, vectors))


def too_many(agent: str, offer: Bank, points: Prototypes, book: Book) -> Refusal | None:
    """Whether a device brings more than it may."""
    names = offer.about.classes
    owners = {name: sender(m) for name, m in {**book.waiting, **book.admitted}.items()}
    own = {name for name, owner in owners.items() if owner == agent}
    rows = int(np.bincount(points.classes).max(initial=0))
    figures = (
        (len(names), OFFERED, "classes in one offer"),
        (rows, ROWS, "prototypes of one class"),
        (len(own.union(names)), BROUGHT, "classes of one device"),
        (len(owners.keys() | set(names)), ENROLLED, "enrolled classes"),
    )
    return next(
        (
            Refusal(Reason.MANY, f"{figure} {what}, at most {most} are taken")
            for figure, most, what in figures
            if figure > most
        ),
        None,
    )


def present_already(agent: str, offer: Bank, bank: Bank, book: Book) -> Refusal | None:
    """Whether a class that is brought is there already, and not this device's own."""
    # Names with prototypes: one that was removed may be enrolled anew. By either of its names: what
    # is renamed is joined by the first, and shown by the other.
    shown = {bank.about.classes[int(c)] for c in np.unique(bank.points.classes)}
    first_names = {to: name for name, to in book.renamed.items()}
    present = shown | {first_names.get(name, name) for name in shown}
    for name in offer.about.classes:
        message = book.admitted.get(name) or book.waiting.get(name)
        free = name not in present if message is None else sender(message) == agent
        if not (free or holds(book.admitted, single(offer, name))):
            return Refusal(Reason.CONFLICT, f"there is a class {name!r} already")
    return None


def doubt(offer: Bank, bank: Bank) -> tuple[str, str]:
    """Code and words where classes of an offer lie close to others; both empty where they do
    not.
    """
    # Not to themselves: an offer is sent until it is answered.
    others = published.without(bank, offer.about.classes).points
    if not (isinstance(others, Prototypes) and isinstance(offer.points, Prototypes)):
        return "", ""
    if not len(others.classes):
        return "", ""
    near, share = published.nearest(others, offer.points.vectors)
    if share >= TOO_NEAR:
        return "", ""
    return Reason.NEAR, f"it lies close to {bank.about.classes[near]}: they may be mixed up"


def unpacked(message: str) -> Bank:
    """A class as it is remembered."""
    return published.read(b64decode(message), "enrol").bank
