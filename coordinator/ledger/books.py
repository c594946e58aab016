"""Decisions about the fleet's classes as values: one book a decision, and how the journal has
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from protofleet.settings.fields import from_plain, to_plain

VERSIONS, BY_DEVICES = 100, 20


@dataclass(frozen=True)
class Book:
    """Decisions: messages are in base64, by class name."""

    frozen: str = ""  # the prototypes of a bundle that replace the run's
    bundle: str = ""  # its digest
    parcel: str = ""  # under which name its bytes are in the journal
    size: int = 0
    admitted: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()  # of those that no message here brought
    # Classes of the ledger that the fleet did not agree on, and which device brought each: those
    # that are shown, and those that wait for an operator.
    brought: Mapping[str, str] = field(default_factory=dict)
    pending: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    by: str = ""  # the device whose offer this was; empty: an operator


def newest(versions: list[Book]) -> list[Book]:
    """As many as are remembered: few of those that devices made, and the last one always."""
    surplus = sum(bool(book.by) for book in versions) - BY_DEVICES
    remembered: list[Book] = []
    for book in versions[:-1]:
        if book.by and surplus > 0:
            surplus -= 1
        else:
            remembered.append(book)
    return [*remembered, versions[-1]][-VERSIONS:]


def as_text(versions: list[Book]) -> str:
    """Versions as the journal has them: a message stands there once and is named by its place."""
    places: dict[str, int] = {}
    plain = [to_plain(book) for book in versions]
    for book in plain:
        for field_name in ("admitted", "waiting"):
            book[field_name] = {
                name: places.setdefault(message, len(places))
                for name, message in book[field_name].items()
            }
    return json.dumps({"messages": list(places), "versions": plain})


def from_text(text: str) -> list[Book]:
    """And back; a list alone is of the first release, with its messages in it."""
    document = json.loads(text)
    if isinstance(document, list):
        return [from_plain(Book, plain) for plain in document]
    messages = document["messages"]
    for plain in document["versions"]:
        for field_name in ("admitted", "waiting"):
            places = plain[field_name].items()
            plain[field_name] = {name: messages[place] for name, place in places}
    return [from_plain(Book, plain) for plain in document["versions"]]
