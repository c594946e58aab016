"""What devices classify with: the run's prototypes, the classes enrolled since, and an operator's
decisions.

Every decision is a new version of one small book in the journal, so any earlier one can be gone
back to.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from coordinator.journal.journal import Journal
from coordinator.ledger import summaries
from coordinator.ledger.extractor import brought
from coordinator.messages import Messages
from coordinator.uploads.validation import Refusal
from protofleet import scoring
from protofleet.errors import UsageError, WireError
from protofleet.exchange import published
from protofleet.exchange.published import STABLE, About, Bank, Published
from protofleet.exchange.state import GlobalState
from protofleet.mqtt.link.events import Publication
from protofleet.recipe import Turn
from protofleet.settings.fields import from_plain, to_plain
from protofleet.util.logs import Log
from protofleet.values.prototypes import Prototypes
from protofleet.wire import Envelope

Policy = Literal["auto", "manual", "off"]
VERSIONS = 100
LONGEST_NAME, MOST, ROWS = 64, 1024, 1024
TOO_NEAR = 0.25  # of what is usual between classes
NOTHING: Mapping[str, bytes] = MappingProxyType({})


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
    removed: tuple[str, ...] = ()  # among those that were not enrolled
    why: str = ""


class Catalogue:
    """The book, the offers that come in, and what is published."""

    def __init__(self, journal: Journal, voice: Messages, policy: str, log: Log) -> None:
        self.journal, self.voice, self.policy, self.log = journal, voice, policy, log

    @property
    def versions(self) -> list[Book]:
        """Every decision, oldest first; at least one."""
        text = self.journal.meta("classes")
        return [from_plain(Book, each) for each in json.loads(text)] if text else [Book()]

    def bank(self, round: int, state: GlobalState, book: Book | None = None) -> Bank | None:
        """What is published; None while there is nothing to classify with."""
        book = book or self.versions[-1]
        found = (
            published.read(b64decode(book.frozen)).bank
            if book.frozen
            else self._learned(round, state)
        )
        if found is None:
            return None
        found = summaries.applied(self.journal, found) if book.frozen else found
        bank = published.without(
            Bank(replace(found.about, bundle=book.bundle), found.points), book.removed
        )
        for message in book.admitted.values():
            bank = published.joined(bank, _offered(message))
        names = tuple(book.renamed.get(name, name) for name in bank.about.classes)
        return Bank(replace(bank.about, classes=names), bank.points)

    def publications(self, round: int, state: GlobalState) -> list[Publication]:
        """The channel, retained: the bundle where there is one, and what is classified with."""
        versions = self.versions
        book, bank = versions[-1], self.bank(round, state, versions[-1])
        said: list[Publication] = []
        if any(each.parcel for each in versions):
            said.append(self.voice.bundle(STABLE, book.bundle, book.parcel, book.size))
        topic = self.voice.topics.proto(STABLE)
        if bank is None:
            return [*said, Publication(topic, b"", retain=True)] if len(versions) > 1 else said
        envelope = Envelope(
            "global",
            self.voice.topics.fleet,
            self.voice.contract.run,
            self.voice.epoch,
            round=round,
            method=self.voice.recipe.name,
        )
        data = published.write(bank, envelope, self.voice.contract.wire)
        return [*said, Publication(topic, data, retain=True)]

    def offered(
        self, agent: str, payload: bytes, round: int, state: GlobalState
    ) -> list[Publication]:
        """A device brings classes of its own: the answer, and the channel where something new is in
        it.
        """
        try:
            offer = published.read(payload, "enrol")
        except WireError as error:
            return [self._answer(agent, "", "refused", error.code, error.words)]
        book, bank = self.versions[-1], self.bank(round, state)
        if offer.envelope.method == summaries.METHOD:
            return self._summarised(agent, payload, offer, bank, round, state)
        wrong = self._wrong(agent, offer.envelope, offer.bank, bank, book)
        if wrong is not None:
            why, status = wrong
            self.log.warning(f"a class is refused: {why.words}", agent=agent, code=why.code)
            return [self._answer(agent, offer.digest, status, why.code, why.words)]
        assert bank is not None
        assert isinstance(bank.points, Prototypes)
        assert isinstance(offer.bank.points, Prototypes)
        fresh = {name: self._kept(offer.bank, name) for name in offer.bank.about.classes}
        near, share = published.nearest(bank.points, offer.bank.points.vectors)
        words = (
            f"it lies close to {bank.about.classes[near]}: they may be mixed up"
            if share < TOO_NEAR
            else ""
        )
        for held, status in ((book.admitted, "accepted"), (book.waiting, "waiting")):
            if fresh.items() <= held.items():
                return [self._answer(agent, offer.digest, status, "near" if words else "", words)]
        if self.policy == "manual":
            held = dict([*book.waiting.items(), *fresh.items()][-MOST:])
            self._write(
                replace(book, waiting=held), f"{', '.join(fresh)} from {agent} waits", round
            )
            return [self._answer(agent, offer.digest, "waiting", "near" if words else "", words)]
        held = {**book.admitted, **fresh}
        self._write(replace(book, admitted=held), f"{', '.join(fresh)} from {agent}", round)
        said = [self._answer(agent, offer.digest, "accepted", "near" if words else "", words)]
        return [*said, *self.publications(round, state)]

    def _summarised(
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
        misfit = self._foreign(agent, offer.envelope, offer.bank, bank)
        if misfit is None and bank is not None:
            misfit = summaries.wrong(offer.bank, bank, frozen=bool(book.frozen))
        if misfit is not None:
            self.log.warning(f"a summary is refused: {misfit.words}", agent=agent, code=misfit.code)
            return [self._answer(agent, offer.digest, "refused", misfit.code, misfit.words)]
        answer = self._answer(agent, offer.digest, "accepted", "", "")
        if summaries.held(self.journal, agent) == payload:
            return [answer]
        with self.journal.commit():
            summaries.keep(self.journal, agent, payload)
        self.log.info("class means", agent=agent, classes=len(offer.bank.about.classes))
        return [answer, *self.publications(round, state)]

    def told(
        self, what: str, arguments: Mapping[str, Any], round: int, state: GlobalState
    ) -> tuple[dict[str, Any], bool]:
        """An operator's word: the answer, and whether the channel changed."""
        if what == "list":
            return self._listed(round, state), False
        if what == "freeze":
            frozen, data = brought(Path(str(arguments["file"])))
            held = b64encode(frozen.prototypes).decode()
            fresh = Book(held, frozen.bundle, frozen.parcel, frozen.size)
            self._write(fresh, f"freeze {frozen.bundle[:16]}", round, {frozen.parcel: data})
            return self._listed(round, state), True
        moves: dict[str, Callable[[Book], Book]] = {
            "admit": lambda book: self._admitted(book, str(arguments["name"])),
            "remove": lambda book: self._removed(book, str(arguments["name"]), round, state),
            "rename": lambda book: self._renamed(
                book, str(arguments["name"]), str(arguments["to"]), round, state
            ),
            "back": lambda book: self._back(int(arguments["version"])),
        }
        if what not in moves:
            raise UsageError(f"classes: no command {what!r}")
        book = moves[what](self.versions[-1])
        words = " ".join(
            [
                what,
                *(str(v) for k, v in sorted(arguments.items()) if k in ("name", "to", "version")),
            ]
        )
        self._write(book, words, round)
        return self._listed(round, state), True

    def _learned(self, round: int, state: GlobalState) -> Bank | None:
        voice = self.voice
        scorers = scoring.scorers_of(
            voice.recipe, Turn(voice.contract, voice.hyper, round), state.shared
        )
        points = scoring.points_of(next(iter(scorers.values())))
        lineage = published.run_lineage(voice.contract, voice.recipe.name, voice.hyper)
        return None if points is None else Bank(About(lineage, voice.contract.classes), points)

    def _wrong(
        self, agent: str, envelope: Envelope, offer: Bank, bank: Bank | None, book: Book
    ) -> tuple[Refusal, str] | None:
        """Why not, and the status that says so."""
        if self.policy == "off":
            return Refusal("enrol-off", "this fleet takes no new classes"), "refused"
        foreign = self._foreign(agent, envelope, offer, bank)
        if foreign is not None or bank is None:
            return (foreign, "refused") if foreign else None
        taken = {
            bank.about.classes[int(c)] for c in np.unique(bank.points.classes)
        } - book.admitted.keys()
        double = next((name for name in offer.about.classes if name in taken), None)
        if double is not None:
            return Refusal("conflict", f"there is a class {double!r} already"), "conflict"
        return None

    def _foreign(
        self, agent: str, envelope: Envelope, offer: Bank, bank: Bank | None
    ) -> Refusal | None:
        if (envelope.agent, envelope.fleet) != (agent, self.voice.topics.fleet):
            return Refusal("wrong-agent", "the sender is not who the topic says")
        if (
            bank is None
            or not isinstance(bank.points, Prototypes)
            or not isinstance(offer.points, Prototypes)
        ):
            return Refusal("no-prototypes", "this fleet does not classify by prototypes")
        return _misfit(offer, offer.points, bank, bank.points)

    def _answer(self, agent: str, digest: str, status: str, code: str, words: str) -> Publication:
        return self.voice.receipt(agent, 0, digest, status, code, words)

    def _kept(self, offer: Bank, name: str) -> str:
        """One class of an offer, as it is remembered."""
        at, points = offer.about.classes.index(name), offer.points
        assert isinstance(points, Prototypes)
        rows = points.only([at])
        one = Bank(
            About(offer.about.lineage, (name,)),
            Prototypes(np.zeros(len(rows.classes), np.int64), rows.vectors),
        )
        return b64encode(
            published.write(one, Envelope("enrol", self.voice.topics.fleet), "float32")
        ).decode()

    def _write(
        self, book: Book, why: str, round: int, files: Mapping[str, bytes] = NOTHING
    ) -> None:
        before = self.versions
        kept = [*before, replace(book, why=why)][-VERSIONS:]
        with self.journal.commit():
            self.journal.set_meta("classes", json.dumps([to_plain(each) for each in kept]))
            self.journal.add_event("classes", round, why=why)
            for name, data in files.items():
                self.journal.keep_file(name, data)
            self.journal.drop_files({each.parcel for each in kept})
            if book.frozen != before[-1].frozen or book.bundle != before[-1].bundle:
                summaries.forget(self.journal)
        self.log.info("classes", what=why)

    def _listed(self, round: int, state: GlobalState) -> dict[str, Any]:
        bank, versions = self.bank(round, state), self.versions
        rows = []
        if bank is not None:
            counts = np.bincount(bank.points.classes, minlength=len(bank.about.classes))
            back = {to: name for name, to in versions[-1].renamed.items()}
            rows = [
                {
                    "name": name,
                    "rows": int(n),
                    "enrolled": back.get(name, name) in versions[-1].admitted,
                }
                for name, n in zip(bank.about.classes, counts, strict=True)
            ]
        return {
            "lineage": "" if bank is None else bank.about.lineage,
            "policy": self.policy,
            "bundle": versions[-1].bundle,
            "summaries": summaries.agents(self.journal),
            "classes": rows,
            "waiting": list(versions[-1].waiting),
            "versions": [
                {"version": i, "why": book.why or "the run's own"}
                for i, book in enumerate(versions)
            ],
        }

    def _admitted(self, book: Book, name: str) -> Book:
        if name not in book.waiting:
            raise UsageError(
                f"no class {name!r} waits", f"waiting: {', '.join(book.waiting) or 'none'}"
            )
        left = {n: m for n, m in book.waiting.items() if n != name}
        return replace(book, waiting=left, admitted={**book.admitted, name: book.waiting[name]})

    def _removed(self, book: Book, name: str, round: int, state: GlobalState) -> Book:
        if name in book.waiting:
            return replace(book, waiting={n: m for n, m in book.waiting.items() if n != name})
        first = self._first_name(book, name, round, state)
        if first in book.admitted:
            return replace(book, admitted={n: m for n, m in book.admitted.items() if n != first})
        return replace(book, removed=(*book.removed, first))

    def _renamed(self, book: Book, name: str, to: str, round: int, state: GlobalState) -> Book:
        first, bank = self._first_name(book, name, round, state), self.bank(round, state)
        if bank is not None and to in bank.about.classes:
            raise UsageError(f"there is a class {to!r} already")
        if not to.isprintable() or not 0 < len(to) <= LONGEST_NAME:
            raise UsageError(f"{to[:LONGEST_NAME]!r} cannot be a class's name")
        return replace(book, renamed={**book.renamed, first: to})

    def _first_name(self, book: Book, name: str, round: int, state: GlobalState) -> str:
        bank = self.bank(round, state)
        if bank is None or name not in bank.about.classes:
            raise UsageError(f"there is no class {name!r}", "`coordinator classes list` shows them")
        return next((first for first, now in book.renamed.items() if now == name), name)

    def _back(self, version: int) -> Book:
        versions = self.versions
        if not 0 <= version < len(versions):
            raise UsageError(
                f"there is no version {version}", f"there are 0 to {len(versions) - 1}"
            )
        return versions[version]


def _offered(message: str) -> Bank:
    return published.read(b64decode(message), "enrol").bank


def _misfit(offer: Bank, points: Prototypes, bank: Bank, known: Prototypes) -> Refusal | None:
    if offer.about.lineage != bank.about.lineage:
        return Refusal(
            "other-lineage",
            f"embeddings of another extractor: here it is {bank.about.lineage[:60]}",
        )
    if points.dim != known.dim or set(points.classes.tolist()) != set(
        range(len(offer.about.classes))
    ):
        return Refusal(
            "dimension", f"prototypes of {known.dim} numbers are due for every class that is named"
        )
    if len(points.classes) > ROWS:
        return Refusal(
            "many", f"{len(points.classes)} prototypes at once, at most {ROWS} are taken"
        )
    if not all(name.isprintable() and len(name) <= LONGEST_NAME for name in offer.about.classes):
        return Refusal(
            "bad-name", f"class names are printable and of at most {LONGEST_NAME} letters"
        )
    return None
