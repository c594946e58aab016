"""What devices classify with: the run's prototypes, the classes enrolled since, and an operator's
decisions.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from coordinator.config import UploadLimits
from coordinator.journal.journal import Journal
from coordinator.ledger import books, offers, summaries
from coordinator.ledger.books import Book
from coordinator.ledger.extractor import read_bundle
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
from protofleet.values.prototypes import Prototypes
from protofleet.wire import Envelope
from protofleet.wire.codes import Reason, UploadStatus

# Theory of operation
#
# What is published on a channel is never stored. It is made each time from three things:
#
#   the base      what the run has learnt in its newest round, or, while an extractor is frozen, the
#                 prototypes of its bundle with the class means of the devices in their place
#   the book      classes removed from the base, classes admitted to it, names they are shown by
#   the bundle    which one its embeddings are of, for devices that have to fetch it
#
# So training goes on beneath what was enrolled: a new round's prototypes take the place of the old
# ones, and the classes that devices brought stay.
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
Policy = Literal["auto", "manual", "off"]
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
        self._text, self._versions = "", [Book()]

    @property
    def versions(self) -> list[Book]:
        """Every decision, oldest first; at least one."""
        text = self.journal.meta("classes") or ""
        if text != self._text:  # a hundred versions are read several times an offer
            self._text, self._versions = text, books.from_text(text)
        return self._versions if text else [Book()]

    def bank(self, round: int, state: GlobalState, book: Book | None = None) -> Bank | None:
        """What is published; None while there is nothing to classify with."""
        book = book or self.versions[-1]
        if book.frozen:
            frozen = published.read(b64decode(book.frozen)).bank
            base: Bank | None = summaries.with_summaries(self.journal, frozen)
        else:
            base = self._learned(round, state)
        if base is None:
            return None
        about = replace(base.about, bundle=book.bundle)
        bank = published.without(Bank(about, base.points), book.removed)
        enrolled = offers.together(map(offers.unpacked, book.admitted.values()), bank)
        bank = bank if enrolled is None else published.joined(bank, enrolled)
        names = tuple(book.renamed.get(name, name) for name in bank.about.classes)
        return Bank(replace(bank.about, classes=names), bank.points)

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
        data = published.write(bank, envelope, self.messages.contract.wire)
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
        if offer.envelope.method == summaries.METHOD:
            return self._take_summary(agent, payload, offer, bank, round, state)
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

    def _take_summary(
        self,
        agent: str,
        payload: bytes,
        offer: Published,
        bank: Bank | None,
        round: int,
        state: GlobalState,
    ) -> list[Publication]:
        """Class means of the classes that are known already."""
        book = self.versions[-1]
        refusal = self._foreign(agent, offer.envelope, offer.bank, bank)
        if refusal is None and bank is not None:
            frozen = bool(book.frozen)
            refusal = summaries.refusal(offer.bank, bank, self.limits, frozen=frozen)
        if refusal is not None:
            code, words = refusal.code, refusal.words
            self.log.warning(f"a summary is refused: {words}", agent=agent, code=code)
            return [self._answer(agent, offer.digest, UploadStatus.REFUSED, code, words)]
        answer = self._answer(agent, offer.digest, UploadStatus.ACCEPTED, "", "")
        if summaries.newest(self.journal, agent) == payload:
            return [answer]
        with self.journal.commit():
            summaries.replace(self.journal, agent, payload)
        self.log.info("class means", agent=agent, classes=len(offer.bank.about.classes))
        return [answer, *self.publications(round, state)]

    def execute(
        self, command: str, arguments: Mapping[str, Any], round: int, state: GlobalState
    ) -> tuple[dict[str, Any], bool]:
        """An operator's command: the answer, and whether the channel changed."""
        if command == "list":
            return self._listing(round, state), False
        if command == "freeze":
            extractor, data = read_bundle(Path(str(arguments["file"])))
            prototypes = b64encode(extractor.prototypes).decode()
            book = Book(prototypes, extractor.bundle, extractor.blob, extractor.size)
            self._write(book, f"freeze {extractor.bundle[:16]}", round, {extractor.blob: data})
            return self._listing(round, state), True
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
        return self._listing(round, state), True

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
        before = self.versions
        versions = books.newest([*before, replace(book, why=why)])
        with self.journal.commit():
            self.journal.set_meta("classes", books.as_text(versions))
            self.journal.add_event("classes", round, why=why)
            for name, data in files.items():
                self.journal.keep_file(name, data)
            # Bundles are large: those that no version can go back to are of no use.
            self.journal.drop_files({version.parcel for version in versions})
            # Class means are of one extractor's embeddings, and mean nothing in another's.
            if book.frozen != before[-1].frozen or book.bundle != before[-1].bundle:
                summaries.forget(self.journal)
        self.log.info("classes", what=why)

    def _listing(self, round: int, state: GlobalState) -> dict[str, Any]:
        bank, versions = self.bank(round, state), self.versions
        rows = []
        if bank is not None:
            counts = np.bincount(bank.points.classes, minlength=len(bank.about.classes))
            back = {to: name for name, to in versions[-1].renamed.items()}
            by = {name: offers.sender(m) for name, m in versions[-1].admitted.items()}
            rows = [
                {
                    "name": name,
                    "rows": int(n),
                    "enrolled": back.get(name, name) in by,
                    "by": by.get(back.get(name, name), ""),
                }
                for name, n in zip(bank.about.classes, counts, strict=True)
            ]
        return {
            "lineage": "" if bank is None else bank.about.lineage,
            "policy": self.policy,
            "bundle": versions[-1].bundle,
            "summaries": summaries.senders(self.journal),
            "classes": rows,
            "waiting": list(versions[-1].waiting),
            "waiting_by": {name: offers.sender(m) for name, m in versions[-1].waiting.items()},
            "versions": [
                {"version": i, "why": book.why or "the run's own"}
                for i, book in enumerate(versions)
            ],
        }

    def _admit(self, book: Book, name: str) -> Book:
        if name not in book.waiting:
            raise UsageError(
                f"no class {name!r} waits", f"waiting: {', '.join(book.waiting) or 'none'}"
            )
        admitted = {**book.admitted, name: book.waiting[name]}
        return replace(book, waiting=_without(book.waiting, name), admitted=admitted)

    def _remove(self, book: Book, name: str, round: int, state: GlobalState) -> Book:
        if name in book.waiting:
            return replace(book, waiting=_without(book.waiting, name))
        first = self._first_name(book, name, round, state)
        if first in book.admitted:
            return replace(book, admitted=_without(book.admitted, first))
        return replace(book, removed=(*book.removed, first))

    def _rename(self, book: Book, name: str, to: str, round: int, state: GlobalState) -> Book:
        first, bank = self._first_name(book, name, round, state), self.bank(round, state)
        if bank is not None and to in bank.about.classes:
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


def _without(messages: Mapping[str, str], name: str) -> dict[str, str]:
    return {other: message for other, message in messages.items() if other != name}
