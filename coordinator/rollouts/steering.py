"""Rollouts with their journal: what an operator begins, what devices report, and what the fleet is
told by it.
"""

# Theory of operation
#
# `staging` decides, the journal knows, and what is said follows from both. A rollout is a row with
# the document that it began with, its phase and its newest group; beside it lie every device's
# newest report and a line for every step that anybody took. One commit writes all that a batch of
# reports leads to, the book of classes included, and only then it is said. So a coordinator that
# dies at any instant comes back to a whole decision: it was taken, and is said again to all, or it
# was not, and the same reports, which are retained at the broker, lead to it again.
#
#   action         book of classes                     plan    channel CANARY
#   begin          -                                   open    the candidate
#   OpenGroup      the last group: the candidate's     open    the same
#   Conclude       -                                   done    nothing
#   Stall          -                                   halted  the same
#   GoBack         the earlier extractor, where the    back    nothing
#                  candidate's was in it
#
# The last group opens by the book: from then on STABLE names the candidate, for devices that know
# no rollouts, for whoever follows the channel without a daemon, and for the ledger of another
# lineage, which begins then. `coordinator freeze` is a rollout whose first group is the last.
#
# Classes. Where the settings say so (`[rollout] versions`), a version of the ledger or of its
# classes is shown to a share of the devices first. What STABLE said last is kept (`_stable`), the
# new state is on CANARY, and the devices of the first group hold one to the other. When enough of
# them proved it, STABLE says it, too, and whatever became newer meanwhile is next. When they find
# it worse STABLE stays; a decision on classes that led to it is taken back with it (a book is a
# value, so that is a version more), and the same state is not tried again. What an operator takes
# away (`classes back`, `classes remove`) goes to all at once.
#
# While a bundle is under way classes go to all at once, as there is but one thing to be tried.
#
# One at a time. A rollout that begins ends the one before: taken back where only some groups had
# it, else left as it is.

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from coordinator.config import RolloutSection
from coordinator.devices import DeviceRecord, Patience
from coordinator.journal.journal import Journal
from coordinator.journal.progress import RolloutRecord, StepRecord
from coordinator.ledger.books import Book
from coordinator.ledger.catalogue import Catalogue, book_of
from coordinator.ledger.extractor import read_bundle
from coordinator.messages import BundleBlob, Messages
from coordinator.rollouts import staging
from coordinator.rollouts.staging import RolloutMember, RolloutState, StagingRules
from protofleet import wire
from protofleet.errors import SettingError, UsageError, WireError
from protofleet.exchange import published
from protofleet.exchange.published import Bank
from protofleet.exchange.rollouts import (
    CANARY,
    MOST_CANARIES,
    RolloutPlan,
    RolloutReport,
    TrialTerms,
    read_report,
    write_plan,
)
from protofleet.exchange.state import GlobalState
from protofleet.mqtt.link.events import Publication
from protofleet.mqtt.topics import DIGEST
from protofleet.settings.fields import from_plain, to_plain
from protofleet.util.logs import Log
from protofleet.wire import Envelope

LOOK = 1.0  # seconds between looks at who is there
STABLE_STATE = "stable"  # what the journal calls the file with the classes that all may have
REFUSED_STATE = "refused state"  # and the digest of those that were found worse
LONGEST_NAME = 64  # of whoever began it


@dataclass(frozen=True)
class RolloutTerms:
    """How a rollout is meant, as it is written down when it begins."""

    bundle: str = ""
    lineage: str = ""
    state: str = ""  # of classes: their digest
    groups: tuple[float, ...] = (1.0,)
    canaries: tuple[str, ...] = ()
    salt: int = 0
    error: float = 0.02
    trigger: float = 0.9
    patience: float = 1800.0
    trial: TrialTerms = field(default_factory=TrialTerms)
    by: str = ""
    book: Book = field(default_factory=Book)  # the candidate's, where it is a bundle
    before: Book = field(default_factory=Book)

    @property
    def is_classes(self) -> bool:
        """Whether it is about classes for the bundle that everybody has."""
        return bool(self.state)

    @property
    def checked(self) -> RolloutTerms:
        """Itself, if a rollout can go by it."""
        shares = self.groups
        if not shares or any(a >= b for a, b in pairwise(shares)):
            raise UsageError("groups are rising shares of the fleet", "--groups 5%,50%,100%")
        if not all(0 < share <= 1 for share in shares):
            raise UsageError("a group is more than 0 % and at most 100 % of the fleet")
        if not (0 <= self.error <= 1 and 0 <= self.trigger <= 1):
            raise UsageError("--error and --trigger are shares", "as 2% and 90%")
        if len(self.canaries) > MOST_CANARIES:
            raise UsageError(f"at most {MOST_CANARIES} canaries are named", "--groups takes shares")
        return self if shares[-1] >= 1 else replace(self, groups=(*shares, 1.0))


class Rollouts:
    """The newest rollout, from a command to what devices run."""

    def __init__(
        self,
        journal: Journal,
        catalogue: Catalogue,
        messages: Messages,
        section: RolloutSection,
        log: Log,
    ) -> None:
        self._journal, self._catalogue, self._messages = journal, catalogue, messages
        self._section, self._log = section, log
        self.number, self.terms = 0, RolloutTerms()
        self.rules, self.state = StagingRules(), RolloutState()
        self.runs: dict[str, str] = {}  # the bundle that each device says it has in use
        self._fresh: dict[str, RolloutReport] = {}
        self._look_at = -math.inf
        self._candidate = b""  # the classes that are tried, as they are published
        self._stable = b""  # those that all have, where they are not the newest
        self._newest = b""  # those that all would have
        self._newest_book: Book | None = None

    @property
    def under_way(self) -> bool:
        """Whether there is one that has not ended."""
        return self.number > 0 and self.state.phase in ("open", "halted")

    @property
    def stamp(self) -> tuple[Book, bytes]:
        """Another one whenever what all devices are told to run has changed."""
        return self._catalogue.versions[-1], self._stable

    @property
    def _promoted(self) -> bool:
        """Whether the fleet's book has the candidate's extractor."""
        whole = not self.terms.is_classes and self.state.group + 1 == len(self.rules.groups)
        return whole and self.state.phase != "back"

    def recover(self, now: float) -> None:
        """Stand where the journal is."""
        record = self._journal.rollouts.newest()
        self._fresh, self._look_at = {}, -math.inf
        self._stable = self._journal.file(STABLE_STATE) or b""
        if record is None:
            self.number, self.terms = 0, RolloutTerms()
            return
        self.number, self.terms = record.number, from_plain(RolloutTerms, record.terms)
        self.rules = self._rules_of(record.number, self.terms)
        members: dict[str, RolloutMember] = {}
        for agent, plain in self._journal.rollouts.members(record.number).items():
            with suppress(SettingError):  # of a newer release
                report = from_plain(RolloutReport, plain)
                members[agent] = RolloutMember(self.rules.group_of(agent), report, now)
                self.runs.setdefault(agent, report.runs)
        phase: Any = record.phase
        present = self.state.present
        self.state = RolloutState(phase, record.stage, record.words, now, members, present)
        self._candidate = self._journal.file(self.terms.state) or b"" if self.terms.state else b""
        self._reserve()

    # what operators say

    def start(
        self, file: Path, terms: RolloutTerms, agents: Sequence[str], now: float, *, whole: bool
    ) -> list[Publication]:
        """Begin one: a bundle, to be brought to these devices and all that come. `whole`: another
        one that is under way ends by it.
        """
        if self.under_way and not (whole or self._promoted or self.terms.is_classes):
            words = f"rollout {self.number} is under way"
            raise UsageError(words, "`coordinator rollout back` ends it")
        extractor, data = read_bundle(file)
        bank = published.read(extractor.prototypes).bank
        before, book = self._catalogue.versions[-1], book_of(extractor)
        lineage = bank.about.lineage
        first_only = not len(bank.points.classes) and lineage != self._catalogue.lineage
        if first_only and terms.groups[0] < 1:
            raise UsageError(
                "this bundle's extractor is another one than the fleet's and knows no class yet: "
                "its first devices would answer nothing",
                "`coordinator freeze` brings it to all at once",
            )
        strangers = sorted(set(terms.canaries) - set(agents))
        if strangers:
            raise UsageError(f"there is no device {strangers[0]!r}", "`coordinator agents`")
        begun = replace(terms, bundle=extractor.bundle, lineage=lineage, book=book, before=before)
        return self._begin(begun.checked, agents, {extractor.blob: data}, now)

    def halt(self, by: str, now: float) -> list[Publication]:
        """No further device begins."""
        self._need("open")
        return self._event(staging.Halt(f"by {by or 'an operator'}"), now, by)

    def resume(self, by: str, now: float) -> list[Publication]:
        """It goes on."""
        self._need("halted")
        return self._event(staging.Resume(), now, by)

    def back(self, by: str, now: float) -> list[Publication]:
        """Every device returns to what was before."""
        self._need("open", "halted", "done")
        before = self.terms.before
        if before.parcel and self._journal.file(before.parcel) is None:
            raise UsageError("the bundle that was before is not here any more", "freeze it anew")
        return self._event(staging.Return(f"by {by or 'an operator'}"), now, by)

    def _need(self, *phases: str) -> None:
        if not self.number:
            raise UsageError("there was no rollout yet", "`coordinator rollout start X.pfb`")
        if self.state.phase not in phases:
            raise UsageError(f"rollout {self.number} is {self.state.phase}")

    # what devices say

    def take(self, agent: str, payload: bytes) -> bool:
        """A device's report; False if it is none."""
        try:
            report, envelope = read_report(payload)
        except WireError:
            return False
        if (envelope.agent, envelope.fleet) != (agent, self._messages.topics.fleet):
            return False
        if report.runs and not DIGEST.fullmatch(report.runs):
            return False
        self.runs[agent] = report.runs
        before = self.state.members.get(agent)
        is_news = before is None or before.report != report
        if report.rollout == self.number and report.step is not None and is_news:
            self._fresh[agent] = report
        return True

    def forget(self, agent: str) -> None:
        """A device left for good; inside a commit."""
        self.runs.pop(agent, None)
        self._journal.rollouts.drop_agent(agent)
        members = {name: m for name, m in self.state.members.items() if name != agent}
        self.state = replace(self.state, members=members)

    def look(
        self, devices: Mapping[str, DeviceRecord], patience: Patience, now: float
    ) -> list[Publication]:
        """What has become due: reports, who is there, and classes that are new."""
        publications: list[Publication] = []
        # Who is there comes first: what is reported is a share of them.
        if self.under_way and (self._fresh or now >= self._look_at):
            self._look_at = now + LOOK
            there = frozenset(
                name
                for name, device in devices.items()
                if not device.left
                and not device.is_site
                and (device.online or not device.gone(now, patience))
            )
            publications += self._event(staging.Presence(there), now)
        if self._fresh and self.number:
            reports, self._fresh = self._fresh, {}
            publications += self._event(staging.Reports(reports), now)
        if self._versions_due():
            pupils = [name for name, device in devices.items() if not device.is_site]
            publications += self._try_classes(pupils, now)
        return publications

    # what is said

    def greetings(self) -> list[Publication]:
        """The plan, and what it is about."""
        if not self.number:
            return []
        return [*self._channel(), self._plan()]

    def _plan(self) -> Publication:
        terms, state = self.terms, self.state
        share = self.rules.groups[min(state.group, len(self.rules.groups) - 1)]
        if terms.is_classes and state.phase == "done":
            share = 0.0  # STABLE says it to all, and nobody tries it any more
        plan = RolloutPlan(
            self.number,
            terms.bundle,
            terms.lineage,
            state.phase,
            share,
            terms.salt,
            terms.canaries,
            terms.state,
            terms.trial,
        )
        topics, contract = self._messages.topics, self._messages.contract
        envelope = Envelope("desired", topics.fleet, contract.run, self._messages.epoch)
        return Publication(topics.rollout, write_plan(plan, envelope), retain=True)

    def _channel(self) -> list[Publication]:
        """What is tried: its bytes, and its classes where they are not those that all have."""
        topics, terms = self._messages.topics, self.terms
        blob, state = BundleBlob("", "", 0), b""
        if self.under_way and not self._promoted:
            if terms.is_classes:
                state = self._candidate
            else:
                blob = BundleBlob(terms.bundle, terms.book.parcel, terms.book.size)
                state = self._own_state()
        proto = Publication(topics.proto(CANARY), state, retain=True)
        return [self._messages.bundle(CANARY, blob), proto]

    def _own_state(self) -> bytes:
        """What devices answer by with a bundle of another lineage, until the fleet has it."""
        if self.terms.lineage == self._catalogue.lineage:
            return b""
        book = self._catalogue.with_extractor(self.terms.book)
        bank = self._catalogue.bank(0, GlobalState(), book)
        if bank is None:
            return b""
        fleet, run = self._messages.topics.fleet, self._messages.contract.run
        return published.write(bank, Envelope("global", fleet, run, self._messages.epoch))

    def staged(self, publications: list[Publication]) -> list[Publication]:
        """What may be said of classes: where new ones are shown to some first, the others hear what
        was good before.
        """
        topic = self._messages.topics.proto(published.STABLE)
        if not self._section.versions or all(p.topic != topic for p in publications):
            return publications
        newest = [p for p in publications if p.topic == topic][-1]
        self._newest, self._newest_book = newest.payload, self._catalogue.book
        if not self._gated:
            self._settle(newest.payload)
            return publications
        return [replace_payload(p, self._stable) if p.topic == topic else p for p in publications]

    @property
    def _gated(self) -> bool:
        """Whether the classes that are newest have to be shown to some first."""
        if not self._stable or not self._newest:
            return False
        if self.under_way and not self.terms.is_classes:
            return False  # one thing at a time: a bundle is tried with the classes that there are
        stable, newest = (published.read(data).bank for data in (self._stable, self._newest))
        same = (stable.about.lineage, stable.about.bundle) == (
            newest.about.lineage,
            newest.about.bundle,
        )
        # The first classes there are: nobody has anything to lose.
        return same and len(stable.points.classes) > 0 and not classifies_alike(stable, newest)

    def at_once(self) -> None:
        """What an operator takes away is nobody's from now on."""
        self._stable = b""

    # inside

    def _versions_due(self) -> bool:
        if not self._gated or self.under_way or not self._section.versions:
            return False
        digest = digest_of(self._newest)
        return digest not in (digest_of(self._stable), self._journal.meta(REFUSED_STATE))

    def _try_classes(self, agents: Sequence[str], now: float) -> list[Publication]:
        section, about = self._section, published.read(self._newest).bank.about
        trial = TrialTerms(True, section.margin, 1000.0, 1000.0, section.settle)
        book = self._newest_book or self._catalogue.book
        terms = RolloutTerms(
            about.bundle,
            about.lineage,
            digest_of(self._newest),
            (section.versions, 1.0),
            (),
            0,
            section.error,
            section.trigger,
            section.patience,
            trial,
            before=replace(self._settled_book, frozen=""),
            book=replace(book, frozen=""),
        )
        self._candidate = self._newest
        files = {terms.state: self._newest}
        return self._begin(terms, agents, files, now)

    @property
    def _settled_book(self) -> Book:
        """The decisions behind what all have."""
        text = self._journal.meta("stable book")
        versions = self._catalogue.versions
        if text is not None and text.isdigit() and int(text) < len(versions):
            return versions[int(text)]
        return versions[-1]

    def _settle(self, payload: bytes) -> None:
        """All have these classes now."""
        if payload == self._stable:
            return
        self._stable = payload
        with self._journal.commit():
            self._note_stable()

    def _note_stable(self) -> None:
        self._journal.put_file(STABLE_STATE, self._stable)
        self._journal.set_meta("stable book", str(len(self._catalogue.versions) - 1))
        self._reserve()

    def _rules_of(self, number: int, terms: RolloutTerms) -> StagingRules:
        return StagingRules(
            number,
            terms.groups,
            frozenset(terms.canaries),
            terms.salt,
            terms.error,
            terms.trigger,
            terms.trial.margin if terms.trial.compare else 1.0,
            terms.patience,
            whole=not terms.is_classes,
        )

    def _begin(
        self,
        terms: RolloutTerms,
        agents: Sequence[str],
        files: Mapping[str, bytes],
        now: float,
    ) -> list[Publication]:
        """Write it down, and open the first group."""
        number = self.number + 1
        terms = replace(terms, salt=staging.salted(self._rules_of(number, terms), agents))
        with self._journal.commit():
            if self.under_way:  # another one takes its place
                phase: Any = "done" if self._promoted else "back"
                words = f"rollout {number} began"
                self.state = replace(self.state, phase=phase, words=words)
                self._write([StepRecord(self.number, "", phase, words)])
            self.number, self.terms = number, terms
            self.rules, self.state = self._rules_of(number, terms), RolloutState(opened=now)
            for name, data in files.items():
                self._journal.keep_file(name, data)
            self._reserve()
            words = f"{terms.state[:16] or terms.bundle[:16]} {shares_in_words(terms.groups)}"
            steps = [StepRecord(number, "", "started", f"{words} by {terms.by or 'the settings'}")]
            if self._promoted:
                self._promote()
            self._write(steps)
        self._log.info("rollout", number=number, what=words)
        self._look_at = -math.inf
        return self.greetings()

    def _event(self, event: staging.StagingEvent, now: float, by: str = "") -> list[Publication]:
        """Through the machine, and all that comes of it in one commit."""
        before = self.state
        after, actions = staging.step(self.rules, before, event, now)
        steps = [StepRecord(self.number, "", *words) for words in map(_in_words, actions)]
        fresh = event.reports if isinstance(event, staging.Reports) else {}
        steps += [_step_of(self.number, a, r) for a, r in fresh.items() if _is_step(before, a, r)]
        operator = isinstance(event, staging.Halt | staging.Resume | staging.Return)
        if isinstance(event, staging.Halt | staging.Resume):
            name = type(event).__name__.lower()
            steps.append(StepRecord(self.number, "", name, f"by {by or 'an operator'}"))
        if not (steps or fresh or operator):
            self.state = after
            return []
        promoted = self._promoted
        with self._journal.commit():
            # A commit that fails leaves this ahead of the journal; the core then recovers all.
            self.state = after
            if fresh:
                plain = {agent: to_plain(report) for agent, report in fresh.items()}
                self._journal.rollouts.put_members(self.number, plain)
            self._follow(actions, promoted=promoted)
            self._write(steps)
        for action in actions:
            name, words = _in_words(action)
            say = self._log.warning if name in ("back", "halted") else self._log.info
            say(f"rollout {self.number}: {name}" + (f": {words}" if words else ""))
        # Reports alone change nothing that devices are told.
        return self.greetings() if actions or operator else []

    def _follow(self, actions: Sequence[staging.StagingAction], *, promoted: bool) -> None:
        """What the journal has to know beside the rollout itself."""
        for action in actions:
            match action:
                case staging.OpenGroup() if self._promoted:
                    self._promote()
                case staging.Conclude() if self.terms.is_classes:
                    self._stable = self._candidate
                    self._note_stable()
                case staging.GoBack(words):
                    self._take_back(words, promoted=promoted)

    def _promote(self) -> None:
        """The candidate's extractor is the fleet's."""
        book = self._catalogue.with_extractor(self.terms.book)
        self._catalogue.record(book, f"freeze {book.bundle[:16]}", 0)

    def _take_back(self, words: str, *, promoted: bool) -> None:
        newest, before, why = self._catalogue.versions[-1], self.terms.before, ""
        book = newest
        if promoted:
            why = f"rollout {self.number} back to {before.bundle[:16] or 'no extractor'}"
            book = self._catalogue.with_extractor(before)
        elif self.terms.is_classes:
            self._journal.set_meta(REFUSED_STATE, self.terms.state)
            if decisions(self.terms.book) != decisions(before):
                why = f"classes of rollout {self.number} back: {words}"[:200]
                frozen = {name: getattr(newest, name) for name in EXTRACTOR}
                book = replace(before, **frozen, by="")
        if why:
            self._catalogue.record(book, why, 0)

    def _write(self, steps: list[StepRecord]) -> None:
        state, plain = self.state, to_plain(self.terms)
        tables = self._journal.rollouts
        tables.put(RolloutRecord(self.number, plain, state.phase, state.group, state.words))
        tables.add_steps(steps)

    def _reserve(self) -> None:
        """Files that no version of the book names, and that must stay all the same."""
        terms = self.terms
        names = {terms.book.parcel, terms.before.parcel, terms.state, STABLE_STATE}
        self._catalogue.reserved = frozenset(names - {""})


EXTRACTOR = ("frozen", "bundle", "parcel", "size")  # of a book; all else is about classes


def decisions(book: Book) -> dict[str, Any]:
    """What a book says of classes."""
    return {n: v for n, v in vars(book).items() if n not in (*EXTRACTOR, "why", "by")}


def digest_of(payload: bytes) -> str:
    """What devices call these classes; empty where there are none."""
    return published.read(payload).digest if payload else ""


def classifies_alike(one: Bank, other: Bank) -> bool:
    """Whether two banks answer the same, whatever else they ask of devices."""
    digests = [wire.digest({bank.kind: bank.points}) for bank in (one, other)]
    return one.about.classes == other.about.classes and digests[0] == digests[1]


def replace_payload(publication: Publication, payload: bytes) -> Publication:
    """The same place, another word."""
    return publication._replace(payload=payload)


def shares_in_words(groups: Sequence[float]) -> str:
    """As a person writes them."""
    return ",".join(f"{100 * share:g}%" for share in groups)


def _in_words(action: staging.StagingAction) -> tuple[str, str]:
    match action:
        case staging.OpenGroup(group):
            return "opened", f"group {group + 1}"
        case staging.Conclude():
            return "done", ""
        case staging.Stall(words):
            return "halted", words
        case staging.GoBack(words):
            return "back", words


def _is_step(before: RolloutState, agent: str, report: RolloutReport) -> bool:
    member = before.members.get(agent)
    return member is None or member.report.step != report.step


def _step_of(number: int, agent: str, report: RolloutReport) -> StepRecord:
    words = report.words or (f"runs {report.runs[:16]}" if report.runs else "")
    return StepRecord(number, agent, str(report.step), words)
