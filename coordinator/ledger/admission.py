"""The door of the ledger: which contributions are let in, and what becomes of classes that the
fleet did not agree on. Pure functions of a message and what is there.
"""

# Theory of operation
#
# A contribution is looked at twice, and the first refusal stands.
#
# `admitted` knows the message alone: it is of this fleet's extractor, its numbers are such as an
# honest device may have, its names can be shown. What bounds one device's influence belongs there.
#
# `placed` knows whose classes are there. A class that the contract names is everybody's. Any other
# has a device that brought it, which the book remembers:
#
#   comes with             the class is          becomes
#   a device's own         agreed on, or shown   more of it
#   samples                waiting, or removed   more of it, and still not shown
#                          new                   shown (auto), waiting (manual), hidden (off)
#   an enrolment           new, or removed       shown (auto), waiting (manual), refused (off)
#                          the device's own      the photos in place of the earlier ones
#                          anybody else's        refused: a device that could would decide what
#                                                others call its pictures
#
# What is not shown is in the sums all the same: how samples lie about their class's mean is true of
# it whether anybody may see its name or not. So a later `admit` has nothing to wait for.
#
# An enrolment in place of a class that an operator removed does not bring back the photos that were
# removed: `superseded` says which contributions go.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from coordinator.config import UploadLimits
from coordinator.ledger.books import Book
from coordinator.ledger.ledger import GRID, Ledger, Place
from coordinator.uploads.validation import Refusal, bounded
from protofleet.exchange.contributed import Claim, Contributed
from protofleet.statistics import contribution
from protofleet.wire.codes import Reason

Policy = Literal["auto", "manual", "off"]

LONGEST_NAME = 64
MOST_CLASSES = 256  # in one contribution, beside those agreed on
BROUGHT, ENROLLED = 256, 1024  # classes beside those agreed on, of one device, of all devices
SOURCES = 64  # contributions of one device: its own samples, and classes that it enrolled


@dataclass(frozen=True)
class AdmissionLimits:
    """What a contribution must fit."""

    lineage: str
    width: int
    classes: int = MOST_CLASSES
    figures: UploadLimits = field(default_factory=UploadLimits)


def admitted(contributed: Contributed, limits: AdmissionLimits) -> Refusal | None:
    """Whether it may be folded, by itself."""
    claim, means = contributed.claim, contributed.contribution.means
    if claim.lineage != limits.lineage:
        return other_lineage(limits.lineage)
    rules = (
        (
            means.dim == limits.width,
            Reason.DIMENSION,
            f"{means.dim} numbers a mean where {limits.width} are due",
        ),
        (
            len(claim.classes) <= limits.classes,
            Reason.MANY,
            f"{len(claim.classes)} classes in one contribution, at most {limits.classes} are taken",
        ),
        (
            claim.source in ("", *claim.classes[: len(claim.classes) == 1]),
            Reason.CLASS,
            "an enrolment is of the class that it is named by, and of no other",
        ),
        (
            all(name.isprintable() and len(name) <= LONGEST_NAME for name in claim.classes),
            Reason.BAD_NAME,
            f"class names are printable and of at most {LONGEST_NAME} letters",
        ),
    )
    refused = next((Refusal(code, words) for holds, code, words in rules if not holds), None)
    if refused is not None:
        return refused
    # Sizes first: from here on there are copies of all that came.
    if not GRID.holds(means.vectors):
        return Refusal(Reason.BAD_VALUE, "means off the grid that they are added on")
    return bounded(limits.figures, contribution.parts_of(contributed.contribution))


def other_lineage(lineage: str) -> Refusal:
    """Features of two extractors do not add up."""
    return Refusal(
        Reason.OTHER_LINEAGE, f"features of another extractor: here it is {lineage[:60]}"
    )


@dataclass(frozen=True)
class Standing:
    """Whose classes are there, and what devices may do."""

    book: Book
    ledger: Ledger
    agreed: frozenset[str]  # what the contract and the extractor's bundle name
    in_bundle: frozenset[str]  # and of which the bundle has prototypes
    policy: Policy
    most_devices: int = 10_000


@dataclass(frozen=True)
class Placed:
    """What becomes of a contribution that is let in: the book as it is then, what is not shown, and
    which contributions it takes the place of beside the device's own of the same source.
    """

    book: Book
    hidden: tuple[str, ...] = ()
    superseded: tuple[Place, ...] = ()


def placed(agent: str, claim: Claim, there: Standing) -> Placed | Refusal:
    """By the table above."""
    book = there.book
    for first, shown in book.renamed.items():
        if shown in claim.classes and shown != first and shown not in there.ledger.ids:
            return Refusal(Reason.CONFLICT, f"what devices call {first!r} is shown as {shown!r}")
    refusal = _enrolled(agent, claim.source, there) if claim.source else None
    fresh = [name for name in claim.classes if _is_new(name, claim.source, there)]
    refusal = refusal or _no_room(agent, claim.source, there) or _too_many(agent, fresh, there)
    if refusal is not None:
        return refusal
    superseded: tuple[Place, ...] = ()
    if claim.source in book.removed:
        others = there.ledger.brought_by(claim.source)
        superseded = tuple(p for p in others if p[1] == claim.source and p[0] != agent)
        still = tuple(name for name in book.removed if name != claim.source)
        book = replace(book, removed=still)
    if fresh and there.policy != "off":
        owners = dict.fromkeys(fresh, agent)
        if there.policy == "auto":
            book = replace(book, brought={**book.brought, **owners})
        else:
            book = replace(book, pending={**book.pending, **owners})
    hidden = tuple(name for name in claim.classes if not is_shown(name, book, there.agreed))
    return Placed(book, hidden, superseded)


def is_shown(name: str, book: Book, agreed: frozenset[str]) -> bool:
    """Whether devices answer by this class."""
    hidden = name in book.removed or name in book.pending
    return not hidden and (name in agreed or name in book.brought)


def _is_new(name: str, source: str, there: Standing) -> bool:
    book = there.book
    if name in book.removed:
        return name == source
    return name not in there.agreed and name not in book.brought and name not in book.pending


def _enrolled(agent: str, name: str, there: Standing) -> Refusal | None:
    """Whether a class may be brought by its photos."""
    if there.policy == "off":
        return Refusal(Reason.ENROL_OFF, "this fleet takes no new classes")
    book = there.book
    if name in book.removed or (agent, name) in there.ledger.entries:
        return None
    owners: Mapping[str, str] = {**book.pending, **book.brought}
    others = {who for who, _ in there.ledger.brought_by(name)} - {agent}
    free = not others and name not in there.in_bundle
    if owners.get(name, agent if free else "") != agent:
        return Refusal(Reason.CONFLICT, f"there is a class {name!r} already")
    return None


def _no_room(agent: str, source: str, there: Standing) -> Refusal | None:
    """Whether the ledger is full: each contribution takes its room in the journal."""
    if (agent, source) in there.ledger.entries:
        return None
    own = there.ledger.of(agent)
    if len(own) >= SOURCES:
        words = f"{len(own)} contributions of one device are here, more are not taken"
        return Refusal(Reason.MANY, words)
    if own or there.ledger.most_agents < there.most_devices:
        return None
    agents = there.ledger.agents
    if len(agents) >= there.most_devices:
        return Refusal(Reason.MANY, f"{len(agents)} devices contributed, more are not taken")
    return None


def _too_many(agent: str, fresh: list[str], there: Standing) -> Refusal | None:
    if not fresh:
        return None
    owners = {**there.book.pending, **there.book.brought}
    own = len({name for name, who in owners.items() if who == agent}.union(fresh))
    if own > BROUGHT:
        words = f"{own} classes of one device that the fleet did not agree on"
        return Refusal(Reason.MANY, f"{words}, at most {BROUGHT} are taken")
    # Where none is shown (`off`) the book names none, and the sums have a row of each all the same.
    whole = len((owners.keys() | there.ledger.ids.keys() | set(fresh)) - there.agreed)
    if whole > ENROLLED:
        words = f"{whole} classes that the fleet did not agree on"
        return Refusal(Reason.MANY, f"{words}, at most {ENROLLED} are taken")
    return None


def without_device(agent: str, book: Book, ledger: Ledger) -> Book:
    """The book when a device is forgotten: what it alone had is no class any more, and what others
    have, too, is nobody's. The ledger is the one without it.
    """
    owners = {**book.pending, **book.brought}
    alone = {n for n, who in owners.items() if who == agent and n not in ledger.ids}

    def others(of: Mapping[str, str]) -> dict[str, str]:
        return {n: "" if who == agent else who for n, who in of.items() if n not in alone}

    return replace(
        book,
        brought=others(book.brought),
        pending=others(book.pending),
        removed=tuple(name for name in book.removed if name not in alone),
        renamed={name: to for name, to in book.renamed.items() if name not in alone},
    )
