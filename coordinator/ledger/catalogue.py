"""What devices classify with: the run's prototypes, the classes enrolled since, and an operator's
decisions.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from coordinator.config import UploadLimits
from coordinator.journal.journal import Journal
from coordinator.ledger import books, display, offers
from coordinator.ledger.admission import Policy, is_shown
from coordinator.ledger.books import Book
from coordinator.ledger.display import Learnt
from coordinator.ledger.extractor import FrozenExtractor, read_bundle
from coordinator.ledger.ledger import Ledger
from coordinator.messages import BundleBlob, Messages
from coordinator.uploads.validation import Refusal, plausible
from protofleet import scoring
from protofleet.errors import UsageError, WireError
from protofleet.exchange import published
from protofleet.exchange.published import STABLE, About, Bank, Published
from protofleet.exchange.state import GlobalState
from protofleet.mqtt.link.events import Publication
from protofleet.recipe import Turn
from protofleet.util.logs import Log
from protofleet.values.prototypes import Head, Prototypes
from protofleet.wire import Envelope
from protofleet.wire.codes import Reason, UploadStatus

# Theory of operation
#
# What is published on a channel is never stored. It is made each time from three things:
#
#   the base      what the run has learnt in its newest round, or, while an extractor is frozen,
#                 what the ledger of its contributions comes to (`coordinator.ledger.keeper`);
#                 before anybody contributed, the prototypes of its bundle
#   the book      classes removed from the base, classes admitted to it, names they are shown by
#   the bundle    which one its embeddings are of, for devices that have to fetch it
#
# So training goes on beneath what was enrolled: a new round's prototypes take the place of the old
# ones, and the classes that devices brought stay. In a ledger a class that devices brought is one
# of its contributions, and the book says no more of it than who brought it and whether it is shown
# (`coordinator.ledger.admission`).
#
# A book is a value. Every decision, a device's or an operator's, is a new version of it in the
# journal, with its reason, and `back` writes an old one as the newest: nothing is undone, so going
# back can be gone back from. The last VERSIONS are kept, and the bundles that they name.
#
# Whose a class is. Every admitted or waiting message carries in its envelope who brought it. A
# name that is there, the run's or another device's, cannot be brought again: a device that could
# would decide what others call its pictures. The device itself may bring its own anew, and an
# operator may remove it for somebody else to bring. Of a message without a sender (an earlier
# release wrote those) nobody is the owner.
#
# What devices may do is bounded: classes in an offer, of a device, in all, rows a class. Few of the
# versions that devices made are remembered, or a device that brings its class again and again would
# take an operator's way back, and fill the journal.
#
# In the journal versions are a list, and messages stand beside it, each once: versions differ by
# one decision, and would otherwise hold all messages a hundred times.
#
# Names. A class is admitted, removed and found by its first name; `renamed` says what it is shown
# by. Operators speak of classes by what is shown, so their words go through `_first_name`.
#
# Embeddings of two extractors mean nothing to each other, and their numbers would not show it.
# Everything carries its lineage, and an offer of another lineage is refused, whatever it looks
# like.

PLAUSIBLE = UploadLimits()
NAMED = "extractor"  # what the journal calls the bundle that the settings named last
BY_NAME = ("brought", "pending", "removed", "renamed")  # of a book
NOTHING: Mapping[str, bytes] = MappingProxyType({})


class Catalogue:
    """The book, the offers that come in, and what is published."""

    def __init__(
        self,
        journal: Journal,
        messages: Messages,
        policy: Policy,
        log: Log,
        limits: UploadLimits = PLAUSIBLE,
    ) -> None:
        self.journal, self.messages, self.policy, self.log = journal, messages, policy, log
        self.limits = limits
        self.ledger = Ledger()  # of the frozen extractor, and what it comes to
        self.learnt: Learnt | None = None
        self.above: Bank | None = None  # of a site: what the fleet above it classifies with
        self.by_rounds = False  # what devices say through the extractor is said in rounds alone
        self.reserved: frozenset[str] = frozenset()  # files that are no version's yet
        self._text, self._versions = "", [Book()]
        self._frozen: dict[str, Bank] = {}  # of the newest books that were asked for

    @property
    def versions(self) -> list[Book]:
        """Every decision, oldest first; at least one."""
        text = self.journal.meta("classes") or ""
        if text != self._text:  # a hundred versions are read several times an offer
            self._text, self._versions = text, books.from_text(text)
        return self._versions if text else [Book()]

    def adopt(self, file: Path, *, stays: bool = False) -> None:
        """The extractor that the fleet's settings name, at a start: it is frozen when it is another
        one than they named before, unless what was said through that is to stay. An operator may
        have chosen a third since.
        """
        extractor, data = read_bundle(file)
        before = self.journal.meta(NAMED)
        if before == extractor.bundle:
            return
        if stays and before is not None:
            raise UsageError(
                "a run with a budget keeps the extractor that it began with",
                "another one is another run: name another data directory",
            )
        if extractor.bundle != self.versions[-1].bundle:
            book, files = self.with_extractor(book_of(extractor)), {extractor.blob: data}
            self._write(book, f"freeze {extractor.bundle[:16]}", 0, files)
        with self.journal.commit():
            self.journal.set_meta(NAMED, extractor.bundle)

    def with_extractor(self, other: Book) -> Book:
        """The newest decisions, under the extractor of another book."""
        before = self.versions[-1]
        book = replace(other, why="", by="")
        if not before.frozen:
            return book
        # Whose a class is, and what it is called, is said of its name and not of any features.
        return replace(book, **{name: getattr(before, name) for name in BY_NAME})

    def bank(self, round: int, state: GlobalState, book: Book | None = None) -> Bank | None:
        """What is published; None while there is nothing to classify with."""
        book = book or self.versions[-1]
        extractor = self.extractor(book)
        base = self._learned(round, state) if extractor is None else extractor
        if base is None:
            return None
        about = replace(base.about, bundle=book.bundle, by_rounds=self.by_rounds)
        above = self.above if extractor is not None else None
        if above is not None and above.about.lineage == about.lineage:
            # Under the names that are shown above; which bundle it is under follows by itself.
            return Bank(replace(above.about, bundle=book.bundle), above.points)
        learnt = self.learnt if extractor is not None else None
        if learnt is not None and learnt.about.lineage == about.lineage:
            shown = display.bank(learnt, base, book, self.agreed(book))
            return Bank(replace(shown.about, by_rounds=self.by_rounds), shown.points)
        bank = published.without(Bank(about, base.points), book.removed)
        enrolled = offers.together(map(offers.unpacked, book.admitted.values()), bank)
        bank = bank if enrolled is None else published.joined(bank, enrolled)
        names = tuple(book.renamed.get(name, name) for name in bank.about.classes)
        return Bank(replace(bank.about, classes=names), bank.points)

    @property
    def book(self) -> Book:
        """The newest decision as it was last read: any thread may look, the journal is the loop's
        alone.
        """
        return self._versions[-1]

    def extractor(self, book: Book | None = None) -> Bank | None:
        """The lineage that is frozen, and the prototypes that its bundle came with."""
        book, frozen = book or self.versions[-1], self._frozen
        if not book.frozen:
            return None
        if book.frozen not in frozen:
            bank = published.read(b64decode(book.frozen)).bank
            frozen = self._frozen = {**dict(list(frozen.items())[-1:]), book.frozen: bank}
        return frozen[book.frozen]

    @property
    def lineage(self) -> str:
        """The frozen extractor's; empty where there is none."""
        extractor = self.extractor()
        return "" if extractor is None else extractor.about.lineage

    def agreed(self, book: Book | None = None) -> tuple[str, ...]:
        """Classes that are everybody's: the contract's, then those that the bundle names."""
        extractor, ours = self.extractor(book), self.messages.contract.classes
        theirs = () if extractor is None else extractor.about.classes
        return (*ours, *(name for name in theirs if name not in ours))

    def publications(self, round: int, state: GlobalState) -> list[Publication]:
        """The channel, retained: the bundle where there is one, and what is classified with."""
        versions = self.versions
        book, bank = versions[-1], self.bank(round, state, versions[-1])
        publications: list[Publication] = []
        # What is retained stays at the broker until something else is: so a bundle, and a bank,
        # that there was in any version and is no more are taken back with an empty message.
        if any(version.parcel for version in versions):
            blob = BundleBlob(book.bundle, book.parcel, book.size)
            publications.append(self.messages.bundle(STABLE, blob))
        topic = self.messages.topics.proto(STABLE)
        if bank is None:
            nothing = Publication(topic, b"", retain=True)
            return [*publications, nothing] if len(versions) > 1 else publications
        envelope = Envelope(
            "global",
            self.messages.topics.fleet,
            self.messages.contract.run,
            self.messages.epoch,
            round=round,
            method=self.messages.recipe.name,
        )
        # Rows of a head are differences of large numbers, whose last digits decide.
        precision = "float32" if isinstance(bank.points, Head) else self.messages.contract.wire
        data = published.write(bank, envelope, precision)
        return [*publications, Publication(topic, data, retain=True)]

    def take_offer(
        self, agent: str, payload: bytes, round: int, state: GlobalState
    ) -> list[Publication]:
        """A device brings classes of its own: the answer, and the channel where something new is in
        it.
        """
        try:
            offer = published.read(payload, "enrol")
        except WireError as error:
            return [self._answer(agent, "", UploadStatus.REFUSED, error.code, error.words)]
        book, bank = self.versions[-1], self.bank(round, state)
        refusal = self._refusal(agent, offer.envelope, offer.bank, bank, book)
        if refusal is not None:
            code, words = refusal.code, refusal.words
            self.log.warning(f"a class is refused: {words}", agent=agent, code=code)
            conflict = code == Reason.CONFLICT
            status = UploadStatus.CONFLICT if conflict else UploadStatus.REFUSED
            return [self._answer(agent, offer.digest, status, code, words)]
        assert bank is not None
        return self._let_in(agent, offer, bank, round, state)

    def _let_in(
        self, agent: str, offer: Published, bank: Bank, round: int, state: GlobalState
    ) -> list[Publication]:
        """Classes that fit: admitted, or waiting for an operator, as the policy says."""
        assert isinstance(bank.points, Prototypes)
        assert isinstance(offer.bank.points, Prototypes)
        book = self.versions[-1]
        doubt = offers.doubt(offer.bank, bank)

        def answer(status: str) -> Publication:
            return self._answer(agent, offer.digest, status, *doubt)

        # An offer is sent until it is answered: the same one again changes nothing.
        if offers.holds(book.admitted, offer.bank):
            return [answer(UploadStatus.ACCEPTED)]
        if offers.holds(book.waiting, offer.bank):
            return [answer(UploadStatus.WAITING)]
        fresh = {name: self._packed(agent, offer.bank, name) for name in offer.bank.about.classes}
        names = ", ".join(fresh)
        book = replace(book, by=agent)
        if self.policy == "manual":
            waiting = {**book.waiting, **fresh}
            self._write(replace(book, waiting=waiting), f"{names} from {agent} waits", round)
            return [answer(UploadStatus.WAITING)]
        admitted = {**book.admitted, **fresh}
        self._write(replace(book, admitted=admitted), f"{names} from {agent}", round)
        return [answer(UploadStatus.ACCEPTED), *self.publications(round, state)]

    def execute(
        self, command: str, arguments: Mapping[str, Any], round: int, state: GlobalState
    ) -> tuple[dict[str, Any], bool]:
        """An operator's command: the answer, and whether the channel changed."""
        if command == "list":
            return self.listing(round, state, self.versions), False
        now = replace(self.versions[-1], by="")
        changes: dict[str, Callable[[Book], Book]] = {
            "admit": lambda book: self._admit(book, str(arguments["name"])),
            "remove": lambda book: self._remove(book, str(arguments["name"]), round, state),
            "rename": lambda book: self._rename(
                book, str(arguments["name"]), str(arguments["to"]), round, state
            ),
            "back": lambda book: self._back(int(arguments["version"])),
        }
        if command not in changes:
            raise UsageError(f"classes: no command {command!r}")
        book = changes[command](now)
        values = [str(v) for k, v in sorted(arguments.items()) if k in ("name", "to", "version")]
        self._write(book, " ".join([command, *values]), round)
        return self.listing(round, state, self.versions), True

    def _learned(self, round: int, state: GlobalState) -> Bank | None:
        contract, recipe, hyper = self.messages.contract, self.messages.recipe, self.messages.hyper
        scorers = scoring.scorers_of(recipe, Turn(contract, hyper, round), state.shared)
        points = scoring.points_of(next(iter(scorers.values())))
        lineage = published.run_lineage(contract, recipe.name, hyper)
        return None if points is None else Bank(About(lineage, contract.classes), points)

    def _refusal(
        self, agent: str, envelope: Envelope, offer: Bank, bank: Bank | None, book: Book
    ) -> Refusal | None:
        """Why the classes of an offer cannot be let in."""
        if self.policy == "off":
            return Refusal(Reason.ENROL_OFF, "this fleet takes no new classes")
        if book.frozen:
            words = "here a class is brought by what its photos contribute: update edge-agent"
            return Refusal(Reason.NO_PROTOTYPES, words)
        foreign = self._foreign(agent, envelope, offer, bank)
        if foreign is not None or bank is None:
            return foreign
        assert isinstance(offer.points, Prototypes)
        return (
            offers.too_many(agent, offer, offer.points, book)
            or plausible(self.limits, offer.points)
            or offers.present_already(agent, offer, bank, book)
        )

    def _foreign(
        self, agent: str, envelope: Envelope, offer: Bank, bank: Bank | None
    ) -> Refusal | None:
        if (envelope.agent, envelope.fleet) != (agent, self.messages.topics.fleet):
            return Refusal(Reason.WRONG_AGENT, "the sender is not who the topic says")
        if (
            bank is None
            or not isinstance(bank.points, Prototypes)
            or not isinstance(offer.points, Prototypes)
        ):
            return Refusal(Reason.NO_PROTOTYPES, "this fleet does not classify by prototypes")
        return offers.misfit(offer, offer.points, bank, bank.points)

    def _answer(self, agent: str, digest: str, status: str, code: str, words: str) -> Publication:
        return self.messages.receipt(agent, 0, digest, status, code, words)

    def _packed(self, agent: str, offer: Bank, name: str) -> str:
        """One class of an offer, as it is remembered, with whose it is."""
        envelope = Envelope("enrol", self.messages.topics.fleet, agent=agent)
        message = published.write(offers.single(offer, name), envelope, "float32")
        return b64encode(message).decode()

    def _write(
        self, book: Book, why: str, round: int, files: Mapping[str, bytes] = NOTHING
    ) -> None:
        with self.journal.commit():
            self.record(book, why, round, files)
        self.log.info("classes", what=why)

    def record(
        self, book: Book, why: str, round: int, files: Mapping[str, bytes] = NOTHING
    ) -> None:
        """Write a decision down, inside a commit."""
        before = self.versions
        versions = books.newest([*before, replace(book, why=why)])
        self.journal.set_meta("classes", books.as_text(versions))
        self.journal.add_event("classes", round, why=why)
        for name, data in files.items():
            self.journal.keep_file(name, data)
        # Bundles are large: those that no version can go back to are of no use, nor is what devices
        # contributed through them.
        self.journal.drop_files({version.parcel for version in versions} | self.reserved)
        if book.frozen != before[-1].frozen:
            lineages = (self.extractor(version) for version in versions)
            self.journal.ledger.drop_lineages({b.about.lineage for b in lineages if b is not None})

    def listing(
        self, round: int, state: GlobalState, versions: Sequence[Book] = ()
    ) -> dict[str, Any]:
        """All of it at a glance, if nothing else is said by decisions as they were last read: any
        thread may ask.
        """
        versions = versions or self._versions
        book = versions[-1]
        bank, frozen = self.bank(round, state, book), self.extractor(book) is not None
        waiting = {name: offers.sender(m) for name, m in book.waiting.items()} | dict(book.pending)
        return {
            "lineage": "" if bank is None else bank.about.lineage,
            "policy": self.policy,
            "bundle": book.bundle,
            "contributors": self.ledger.agents if frozen else [],
            "classes": self._ledger_rows(book) if frozen else self._rows(book, bank),
            "waiting": list(waiting),
            "waiting_by": waiting,
            "versions": [
                {"version": i, "why": book.why or "the run's own"}
                for i, book in enumerate(versions)
            ],
        }

    def _rows(self, book: Book, bank: Bank | None) -> list[dict[str, Any]]:
        """Every class that is classified with, by prototypes."""
        if bank is None:
            return []
        counts = np.bincount(bank.points.classes, minlength=len(bank.about.classes))
        back = {to: name for name, to in book.renamed.items()}
        by = {name: offers.sender(m) for name, m in book.admitted.items()}
        return [
            {
                "name": name,
                "rows": int(n),
                "enrolled": back.get(name, name) in by,
                "by": by.get(back.get(name, name), ""),
            }
            for name, n in zip(bank.about.classes, counts, strict=True)
        ]

    def _ledger_rows(self, book: Book) -> list[dict[str, Any]]:
        """Every class of the ledger, whether it is shown or not."""
        agreed, samples, devices = self.agreed(book), self.ledger.classes, self.ledger.devices
        names = (*agreed, *sorted(samples.keys() - set(agreed)))
        public = display.names_shown(names, book)
        return [
            {
                "name": public[name],
                "samples": samples.get(name, 0),
                "devices": devices.get(name, 0),
                "enrolled": name in book.brought,
                "by": book.brought.get(name, ""),
                "shown": is_shown(name, book, frozenset(agreed)),
                "removed": name in book.removed,
            }
            for name in names
        ]

    def _admit(self, book: Book, name: str) -> Book:
        if name in book.pending:
            by = {**book.brought, name: book.pending[name]}
            return replace(book, pending=_without(book.pending, name), brought=by)
        # Removed under its first name; an operator says what it is shown by.
        first = next((first for first, now in book.renamed.items() if now == name), name)
        if first in book.removed and self.extractor(book) is not None:
            return replace(book, removed=tuple(other for other in book.removed if other != first))
        if name not in book.waiting:
            waiting = ", ".join((*book.waiting, *book.pending)) or "none"
            raise UsageError(f"no class {name!r} waits", f"waiting: {waiting}")
        admitted = {**book.admitted, name: book.waiting[name]}
        return replace(book, waiting=_without(book.waiting, name), admitted=admitted)

    def _remove(self, book: Book, name: str, round: int, state: GlobalState) -> Book:
        if name in book.waiting:
            return replace(book, waiting=_without(book.waiting, name))
        if name in book.pending:
            by = {**book.brought, name: book.pending[name]}
            book = replace(book, pending=_without(book.pending, name), brought=by)
            return replace(book, removed=(*book.removed, name))
        first = self._first_name(book, name, round, state)
        if first in book.admitted:
            return replace(book, admitted=_without(book.admitted, first))
        return replace(book, removed=(*book.removed, first))

    def _rename(self, book: Book, name: str, to: str, round: int, state: GlobalState) -> Book:
        first, bank = self._first_name(book, name, round, state), self.bank(round, state)
        # Whoever waits, or was removed, has a name, too.
        others = self.ledger.ids.keys() - {first} if self.extractor(book) is not None else set()
        if to in others or (bank is not None and to in bank.about.classes):
            raise UsageError(f"there is a class {to!r} already")
        if not to.isprintable() or not 0 < len(to) <= offers.LONGEST_NAME:
            raise UsageError(f"{to[: offers.LONGEST_NAME]!r} cannot be a class's name")
        return replace(book, renamed={**book.renamed, first: to})

    def _first_name(self, book: Book, name: str, round: int, state: GlobalState) -> str:
        bank = self.bank(round, state)
        if bank is None or name not in bank.about.classes:
            raise UsageError(f"there is no class {name!r}", "`coordinator classes list` shows them")
        # Enrolled under its first name; renamed is what is shown.
        return next((first for first, now in book.renamed.items() if now == name), name)

    def _back(self, version: int) -> Book:
        versions = self.versions
        if not 0 <= version < len(versions):
            raise UsageError(
                f"there is no version {version}", f"there are 0 to {len(versions) - 1}"
            )
        return replace(versions[version], by="")


def book_of(extractor: FrozenExtractor) -> Book:
    """Nothing decided but which extractor."""
    prototypes = b64encode(extractor.prototypes).decode()
    return Book(prototypes, extractor.bundle, extractor.blob, extractor.size)


def _without(messages: Mapping[str, str], name: str) -> dict[str, str]:
    return {other: message for other, message in messages.items() if other != name}
