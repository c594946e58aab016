"""The ledger with its journal: what devices contribute and count is taken in, what comes of it is
published when it changed.
"""

# Theory of operation
#
# There are no rounds. A device speaks when its samples changed, an operator takes one away, and the
# ledger's value (`coordinator.ledger.ledger`) follows. `take` and `forget` change it, each in one
# commit; nothing is receipted before it is on disk. `look`, which the core calls with every batch,
# does what has become due:
#
#   due                          when
#   a version is published       the total changed, and `interval` passed since the last one, and a
#                                millisecond for each device that will hear it; or counts came: of
#                                all who were to count, or `settle` passed since the first of them
#   its total is offered for     it stood still for `settle`, or it grew by a quarter since the last
#   counting                     that was offered, the first change to which is `settle` ago
#   a device is compared with    all stood still for `settle`; one every PAUSE seconds
#   the others
#
# A version is a function of the sums and counts that are there (`coordinator.ledger.versions`). So
# a coordinator that starts again, another one with the same journal, and a replay have the same.
# Versions are numbered and their hashes written down; states are not, as they are made again from
# the contributions.
#
# Counts are of one total, whose hash they carry. Those of an older total go on being used, and are
# said not to be current, until the first of a newer one come; then they are dropped. When a device
# is forgotten all are dropped, as they were counted with it. Who counts is drawn by a hash of the
# total and the device's name, `asked` devices on average.
#
# What a stranger sends is folded here, and what comes of it is computed with. The door
# (`admission`) bounds what can be folded; should the classifier fail all the same, the version that
# is there stays, `status` says why, and no restart ends in it.
#
# A site's keeper (`follow`) adds up and counts like any other, and journals versions of its own
# sum, which a replay looks at and nobody else: its devices hear the classes and the total of the
# fleet above.
#
# Trap: the value is replaced after its commit, or put back where that fails (`batch`), so a write
# that failed leaves it where the journal is. `recover` compares digests and adds up again only
# where they differ.

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256

from coordinator.config import LedgerSection, UploadLimits
from coordinator.journal.journal import Journal
from coordinator.journal.tables import ContributionRecord, CountsRecord, VersionRecord
from coordinator.ledger import admission, comparison, display, drift, sites, snapshot
from coordinator.ledger.above import Above
from coordinator.ledger.admission import MOST_CLASSES, AdmissionLimits, Placed, Standing
from coordinator.ledger.catalogue import Catalogue
from coordinator.ledger.comparison import Comparisons
from coordinator.ledger.drift import Drifts
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.sites import SiteLimits
from coordinator.ledger.snapshot import FEW, Recheck
from coordinator.ledger.versions import (
    CountTotal,
    LedgerVersion,
    OfferedTotal,
    VersionTerms,
    read_contribution,
    read_ledger,
    read_summand,
    read_tally,
    version,
)
from coordinator.messages import Messages
from coordinator.uploads.validation import Refusal
from protofleet import wire
from protofleet.errors import FusionError, WireError
from protofleet.exchange import contributed, relayed
from protofleet.exchange.contributed import Claim, Contributed, CountReport, Withdrawal
from protofleet.exchange.gathered import GROUP, GroupTotal
from protofleet.exchange.relayed import RelayedCounts, RelayedTotal
from protofleet.mqtt.link.events import Publication
from protofleet.settings.fields import from_plain, to_plain
from protofleet.statistics.adoption import Standard
from protofleet.statistics.confusion import Confusion
from protofleet.util.logs import Log
from protofleet.values.prototypes import Head
from protofleet.wire import Envelope
from protofleet.wire.codes import Reason, UploadStatus

TOTAL = "total"  # the channel of what is counted against
OFFERED = "offered"  # what the journal calls it
DRIFTING = "drifting"  # devices that were written down as changed
MEASURED = "measured"  # the counts that were written down last
GREW = 1.25  # as often as this many samples make a total worth counting against
PAUSE = 2.0  # seconds from one device's comparison to the next
AGAIN = 0.5  # and from one contribution that is added up again
# Seconds a device between two versions: each goes to everybody, so that while ten thousand devices
# contribute in a row the broker would be busy with nothing else.
HEARD_IN = 0.001
KEEP_EVERY = 600.0  # seconds between two snapshots, which are 13 MB at 1,280 features

REFUSED = UploadStatus.REFUSED

Said = Contributed | CountReport | Withdrawal | RelayedTotal | RelayedCounts
Refuse = Callable[[str, int, str, Refusal, str], list[Publication]]  # as `Intake.refuse`


@dataclass(frozen=True)
class LedgerTerms:
    """What a ledger goes by."""

    rules: LedgerSection
    limits: UploadLimits
    devices: int  # at most
    version: VersionTerms
    sites: tuple[str, ...] = ()  # that may speak for devices


@dataclass(frozen=True)
class Forgotten:
    """Hashes of the state before a device was taken away and after it, and what went."""

    agent: str
    before: str
    after: str
    contributions: int
    changes: int  # of the journal's tables by then


class Keeper:
    """A fleet's ledger, from what comes to what is published."""

    def __init__(
        self,
        journal: Journal,
        catalogue: Catalogue,
        messages: Messages,
        terms: LedgerTerms,
        log: Log,
        refuse: Refuse,
    ) -> None:
        self._journal, self._catalogue, self._messages = journal, catalogue, messages
        self._terms, self._log, self._refuse = terms, log, refuse
        self.tally = CountTotal()
        self.version = LedgerVersion()
        self.number = 0  # of the version
        self.numbered_at: float | None = None  # by the wall's clock; None: before anybody noted it
        self.offered = OfferedTotal()
        self.comparisons = Comparisons()
        self.drifts = Drifts()
        self._shares = LedgerVersion(), dict[str, tuple[float, int]]()  # of which version, and what
        self.trouble = ""  # why no newer version could be made
        self.above: Above | None = None  # of a site: what the fleet above it said
        self._kept = Ledger()  # the value that the snapshot is of
        self._kept_at = -math.inf
        self._recheck: Recheck | None = None  # of a total that came from a snapshot
        self._recheck_anew = False  # something changed since it began
        self._total_message: Publication | None = None
        self._dirty = False  # the total is not the version's
        self._counted_at = math.inf  # when the first counts came that are in no version
        self._published_at = self._changed_at = self._compare_at = -math.inf
        self._restless_since = math.inf  # the first change to what is offered
        # Who is to count, of which ledger and total.
        self._drawn = (self.ledger, self.offered), frozenset[str]()

    @property
    def ledger(self) -> Ledger:
        """What is in it."""
        return self._catalogue.ledger

    @ledger.setter
    def ledger(self, ledger: Ledger) -> None:
        self._catalogue.ledger = ledger

    @property
    def is_settled(self) -> bool:
        """Whether all that came is in the version that is published."""
        return not self._dirty and self._counted_at == math.inf

    @property
    def held_out(self) -> Standard:
        """What the devices that are heard counted, under the extractor that there is."""
        return Standard.of(self.tally.but(self.version.uncounted))

    @property
    def confusion(self) -> tuple[tuple[str, ...], Confusion] | None:
        """What is taken for what, by name, of those that are heard; none of a total that is no
        more, as its class ids may be others by now.
        """
        version, tally = self.version, self.tally
        counts = tally.but(version.uncounted) if tally.total == version.total else None
        confused = None if counts is None else counts.confused
        if confused is None or confused.classes.max() >= len(version.names):
            return None
        return tuple(version.names[i] for i in confused.classes), confused

    def recover(self, now: float) -> None:
        """Stand where the journal is: at the start, after writing failed, and where an operator
        chose another extractor.
        """
        tables, lineage = self._journal.ledger, self._catalogue.lineage
        like, number = self.ledger, len(tables.contributions(lineage))
        if self.ledger.lineage != lineage:
            like = snapshot.read(self._journal, lineage) or like
            self._kept, self._recheck = like, None
            before = self.ledger.lineage  # empty at the start
            self.drifts = Drifts.of_text("" if before else self._journal.meta(DRIFTING) or "")
        if number and self.ledger.lineage != lineage:
            kept = len(like.entries)
            self._log.info("adding up what devices contributed", contributions=number, kept=kept)
        empty = Ledger(lineage, buckets=self._terms.version.buckets)
        self.ledger, unreadable = read_ledger(tables, empty, like=like)
        if like is self._kept and like.digests.items() <= self.ledger.digests.items():
            self._recheck = Recheck.of(self.ledger) if like.entries else None
            self._recheck_anew = False
        for agent in unreadable:
            self._log.error("a contribution cannot be read, and is in no sum", agent=agent)
        self.tally = read_tally(tables, lineage)
        offered = json.loads(self._journal.meta(OFFERED) or "{}")
        self.offered = from_plain(OfferedTotal, offered) if offered else OfferedTotal()
        if self.offered.lineage != lineage:
            self.offered = OfferedTotal()
        self._changed_at, self._restless_since = now, math.inf
        self._publish(now)
        if self.offered.total != self.version.total:
            self.offered = OfferedTotal()  # what was to be counted against is no more
        self._say_total()
        self._heed()
        self.comparisons = self.comparisons.upset(self.ledger.agents)

    def follow(self, above: Above) -> None:
        """From now on devices classify with this, and count against that: it is of them and of all
        other sites'.
        """
        self.above = above
        self._heed()

    def greetings(self) -> list[Publication]:
        """What is retained beside the channel itself; a total that nobody is to count against any
        more is taken back.
        """
        if self._total_message is not None:
            return [self._total_message]
        was_offered = self._journal.meta(OFFERED) is not None or self.above is not None
        return [Publication(self._topic, b"", retain=True)] if was_offered else []

    def take(self, agent: str, payload: bytes, now: float) -> list[Publication]:
        """A contribution or counts: the answer."""
        message, digest, refusal = self._opened(agent, payload)
        if refusal is not None or message is None:
            assert refusal is not None  # it says why there is none
            return self._refuse(agent, 0, digest, refusal, REFUSED)
        if isinstance(message, CountReport | RelayedCounts):
            return self._take_counts(agent, message, payload, now)
        if isinstance(message, Withdrawal):
            return self._take_back(agent, message, now)
        if isinstance(message, RelayedTotal):
            return self._take_total(agent, message, payload, now)
        return self._take_contribution(agent, message, payload, now)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """One commit for all that is taken in the block: a wait for the disk each would be most of
        what a contribution costs. If it fails nothing of it was ever here.
        """
        before = self.ledger, self.tally
        try:
            with self._journal.commit():
                yield
        except BaseException:
            self.ledger, self.tally = before
            raise

    def look(self, now: float, listeners: int = 0) -> tuple[bool, list[Publication]]:
        """Whether there is a new version, and what is to be said beside it; `listeners` are the
        devices that hear each.
        """
        publications: list[Publication] = []
        published = self._version_due(now, listeners)
        if published:
            self._publish(now)
        if self._offer_due(now):
            self._offer(now)
            publications, published = self.greetings(), True
        elif not self._dirty and self._is_calm(now) and now >= self._compare_at:
            if self._recheck is not None:
                self._check_again(self._recheck, now)
            else:
                self._compare(now)
            if now - self._kept_at >= KEEP_EVERY:
                self._kept_at = now
                self.keep()
        return published, publications

    def keep(self) -> None:
        """Write the total down for the next start, if that would save time."""
        if self._kept is not self.ledger and len(self.ledger.entries) > FEW:
            with suppress(OSError):  # the next start takes longer, and that is all
                snapshot.write(self._journal, self.ledger)
                self._kept = self.ledger

    def forget(self, agent: str, now: float) -> Forgotten:
        """Take a device away, with all that it contributed, counted and brought."""
        before, ledger, tables = self._up_to_date(now), self.ledger, self._journal.ledger
        sources = ledger.of(agent)
        for source in sources:
            ledger = ledger.without(
                agent, read_summand(tables, self._catalogue.lineage, agent, source)
            )
        book = self._catalogue.versions[-1]
        without = admission.without_device(agent, book, ledger)
        snapshot.remove(self._journal)
        with self._journal.commit():
            tables.drop_agent(agent)
            tables.drop_counts()
            self._journal.set_meta(OFFERED, "{}")
            self._journal.add_event("forgotten", agent=agent, contributions=len(sources))
            if without != book:
                self._catalogue.record(without, f"{agent} was forgotten", self.number)
        self._journal.wipe()
        self.ledger = ledger
        if self.above is not None and sources:
            self.above = self.above.without_total()
        self._drop_counted()
        self._changed(agent, now)
        self.comparisons = self.comparisons.without(agent)
        self.drifts = self.drifts.without(agent)
        self._publish(now)
        after = self.version.state.sha256
        self._log.info("forgotten", agent=agent, contributions=len(sources), state=after[:16])
        return Forgotten(agent, before, after, len(sources), tables.changes)

    def take_group(
        self, group: GroupTotal, body: bytes, now: float, also: Callable[[], None]
    ) -> None:
        """A group's total, in the place of the one before; `also` is of the same commit."""
        lineage, ledger = self._catalogue.lineage, self.ledger
        there = (GROUP, "") in ledger.entries
        old = read_summand(self._journal.ledger, lineage, GROUP, "") if there else None
        ledger = ledger.plus(GROUP, group, old)
        members, samples = group.claim.members, sum(group.samples.values())
        with self._journal.commit():
            record = ContributionRecord(GROUP, "", group.digest)
            self._journal.ledger.put_contribution(lineage, record, body)
            self._journal.add_event("gathered", devices=len(members), samples=samples)
            also()
        self.ledger = ledger
        self._changed("", now)
        self._log.info("contributions of a group", devices=len(members), samples=samples)

    def take_counted(
        self, total: str, group: GroupTotal, body: bytes, now: float, also: Callable[[], None]
    ) -> None:
        """What a group counted together against this total."""
        tally = self.tally.with_group(total, group)
        with self._journal.commit():
            record = CountsRecord(GROUP, total, group.digest, body)
            self._journal.ledger.drop_counts_but(self._catalogue.lineage, total)
            self._journal.ledger.put_counts(self._catalogue.lineage, record)
            also()
        self._counted_at = min(self._counted_at, now)
        self.tally = tally
        self._log.info("counts of a group", devices=len(tally.members))

    def take_drift(self, agent: str, document: object, now: float) -> bool:
        """What a device reports of its newest samples: no more than a word about itself. False if
        it is not one.
        """
        report = drift.read(document, self._catalogue.lineage)
        if report is None:
            return False
        if self._shares[0] is not self.version:
            self._shares = self.version, drift.counted_shares(self.version, self.tally)
        promised = self._terms.version.alarms
        fresh = drift.judged(agent, report, promised, self._shares[1])
        self.drifts = self.drifts.plus(fresh)
        if self.drifts.is_news(agent, now):
            drifts = self.drifts.noting(agent, now)
            with self._journal.commit():
                self._journal.add_event("drift", **fresh.document)
                self._journal.set_meta(DRIFTING, drifts.as_text)
            self.drifts = drifts
            say = self._log.warning if fresh.changed else self._log.info
            say(fresh.sentence, agent=agent)
        return True

    # what comes

    def _take_contribution(
        self, agent: str, message: Contributed, payload: bytes, now: float
    ) -> list[Publication]:
        claim, ledger, tables = message.claim, self.ledger, self._journal.ledger
        earlier = ledger.entries.get((agent, claim.source))
        agreed, standing = self._catalogue.agreed(), self._standing()
        limits = AdmissionLimits(
            self._catalogue.lineage, self.width, len(agreed) + MOST_CLASSES, self._terms.limits
        )
        outcome = admission.admitted(message, limits) or admission.placed(agent, claim, standing)
        if self._terms.sites and (site := ledger.site_of(agent)):
            words = f"{agent} is in the sum of {site}: it is to be forgotten there"
            outcome = Refusal(Reason.CONFLICT, words)
        if isinstance(outcome, Refusal):
            conflict = outcome.code == Reason.CONFLICT
            status = UploadStatus.CONFLICT if conflict else REFUSED
            return self._refuse(agent, 0, message.digest, outcome, status)
        answer = self._answer(agent, message, outcome)
        if (
            earlier is not None
            and earlier.digest == message.digest
            and outcome.book == standing.book
        ):
            return answer
        try:
            old = None
            if earlier is not None:
                old = read_contribution(tables, self._catalogue.lineage, agent, claim.source)
            ledger = ledger.plus(agent, message, old)
            for who, source in outcome.superseded:
                ledger = ledger.without(
                    who, read_contribution(tables, self._catalogue.lineage, who, source)
                )
        except (FusionError, WireError) as error:
            refusal = Refusal(Reason.BAD_FUSION, " ".join(str(error).split()))
            return self._refuse(agent, 0, message.digest, refusal, REFUSED)
        record = ContributionRecord(agent, claim.source, message.digest)
        names = ", ".join(claim.classes)
        with self._journal.commit():
            tables.put_contribution(self._catalogue.lineage, record, payload)
            for who, source in outcome.superseded:
                tables.drop_contribution(self._catalogue.lineage, who, source)
            if outcome.book != standing.book:
                by = replace(outcome.book, by=agent)
                self._catalogue.record(by, _why(agent, standing, outcome), self.number)
            samples = message.contribution.samples
            self._journal.add_event(
                "contributed",
                agent=agent,
                source=claim.source,
                samples=samples,
                classes=len(claim.classes),
            )
        self.ledger = ledger
        self._changed(agent, now)
        self._log.info("contribution", agent=agent, samples=samples, classes=names[:200])
        return answer

    def _take_total(
        self, site: str, message: RelayedTotal, payload: bytes, now: float
    ) -> list[Publication]:
        """A site's sum, in the place of the one before."""
        claim, ledger, tables = message.claim, self.ledger, self._journal.ledger
        lineage, standing = self._catalogue.lineage, self._standing()
        before = ledger.entries.get((site, ""))
        answer = [self._messages.receipt(site, 0, message.digest, UploadStatus.ACCEPTED)]
        if before is not None and before.digest == message.digest:
            return answer
        others = [name for name in ledger.agents if before is None or name not in before.members]
        outcome = (
            sites.elsewhere(site, claim, ledger)
            or sites.too_many(claim, others, self._terms.devices)
            or admission.placed(site, Claim(lineage, claim.classes), standing)
        )
        if isinstance(outcome, Refusal):
            return self._refuse(site, 0, message.digest, outcome, REFUSED)
        try:
            old = None if before is None else read_summand(tables, lineage, site, "")
            ledger = ledger.plus(site, message, old)
        except (FusionError, WireError) as error:
            refusal = Refusal(Reason.BAD_FUSION, " ".join(str(error).split()))
            return self._refuse(site, 0, message.digest, refusal, REFUSED)
        gone = () if before is None else sorted({*before.members} - {*claim.members})
        record = ContributionRecord(site, "", message.digest)
        samples = sum(message.samples.values())
        with self._leaving(gone):
            tables.put_contribution(lineage, record, payload, wipe=bool(gone))
            if outcome.book != standing.book:
                by = replace(outcome.book, by=site)
                self._catalogue.record(by, _why(site, standing, outcome), self.number)
            self._journal.add_event(
                "relayed", agent=site, devices=len(claim.members), samples=samples
            )
        self.ledger = ledger
        self._changed(site, now)
        self._log.info("site", agent=site, devices=len(claim.members), samples=samples)
        return answer

    @contextmanager
    def _leaving(self, gone: Sequence[str]) -> Iterator[None]:
        """A commit. Where devices leave a site with it nothing of them stays here, either, nor what
        was counted against them: as with `forget`.
        """
        if gone:
            snapshot.remove(self._journal)
        with self._journal.commit():
            yield
            if gone:
                self._journal.ledger.drop_counts()
                self._journal.set_meta(OFFERED, "{}")
        if gone:
            self._journal.wipe()
            self._drop_counted()

    def _drop_counted(self) -> None:
        """Somebody is taken away from what was counted against."""
        self.tally, self.offered = CountTotal(), OfferedTotal()
        self._total_message, self._counted_at = None, math.inf
        self._heed()

    def _take_back(self, agent: str, message: Withdrawal, now: float) -> list[Publication]:
        """A device's own contribution goes, and nothing comes in its place."""
        claim, ledger, tables = message.claim, self.ledger, self._journal.ledger
        if claim.lineage != self._catalogue.lineage:
            refusal = admission.other_lineage(self._catalogue.lineage)
            return self._refuse(agent, 0, message.digest, refusal, REFUSED)
        answer = [self._messages.receipt(agent, 0, message.digest, UploadStatus.ACCEPTED)]
        if (agent, claim.source) not in ledger.entries:
            return answer
        try:
            old = read_summand(tables, claim.lineage, agent, claim.source)
            ledger = ledger.without(agent, old)
        except (FusionError, WireError) as error:
            refusal = Refusal(Reason.BAD_FUSION, " ".join(str(error).split()))
            return self._refuse(agent, 0, message.digest, refusal, REFUSED)
        gone = self.ledger.entries[agent, claim.source].members  # of a site that has nobody now
        with self._leaving(gone):
            tables.drop_contribution(claim.lineage, agent, claim.source, wipe=bool(gone))
            self._journal.add_event("withdrawn", agent=agent)
        self.ledger = ledger
        self._changed(agent, now)
        if not ledger.of(agent):
            self.comparisons = self.comparisons.without(agent)
        self._log.info("withdrawn", agent=agent)
        return answer

    def _take_counts(
        self, agent: str, message: CountReport | RelayedCounts, payload: bytes, now: float
    ) -> list[Publication]:
        claim, offered = message.claim, self.offered
        refusal = None
        if not offered.total or claim.total != offered.total:
            words = "counted against another total than devices are asked to count against"
            refusal = Refusal(Reason.WRONG_BASE, words)
        elif claim.lineage != offered.lineage:
            refusal = admission.other_lineage(offered.lineage)
        elif stranger := self._not_asked(agent, message):
            refusal = Refusal(Reason.NOT_ASKED, f"{stranger} was not asked to count")
        if refusal is not None:
            return self._refuse(agent, 0, message.digest, refusal, REFUSED)
        answer = [self._messages.receipt(agent, 0, message.digest, UploadStatus.ACCEPTED)]
        there = self.tally.digests.get(agent) if self.tally.total == claim.total else None
        if there == message.digest:
            return answer
        record = CountsRecord(agent, claim.total, message.digest, payload)
        with self._journal.commit():
            if self.tally.total != claim.total:
                self._journal.ledger.drop_counts_but(offered.lineage, claim.total)
            self._journal.ledger.put_counts(offered.lineage, record)
        self._counted_at = min(self._counted_at, now)
        self.tally = self.tally.plus(agent, message)
        self._log.info("counts", agent=agent)
        return answer

    def _not_asked(self, agent: str, message: CountReport | RelayedCounts) -> str:
        """Who of those that counted was not to; empty if nobody."""
        own = self.ledger.of(agent)
        if isinstance(message, RelayedCounts):
            there = {name for entry in own.values() for name in entry.members}
            names = message.claim.members
            return next((n for n in names if n not in there or not self.offered.is_for(n)), "")
        return "" if own and self.offered.is_for(agent) else agent

    def _opened(self, agent: str, payload: bytes) -> tuple[Said | None, str, Refusal | None]:
        """What came, with the digest of its body, if it can be read and is for this ledger."""
        try:
            envelope, body = wire.unseal(payload)
            of_site = envelope.method in relayed.METHODS
            stranger = sites.stranger(agent, self._terms.sites) if of_site else None
            if stranger is not None:  # before it takes any memory
                return None, sha256(body).hexdigest(), stranger
            message: Said = relayed.read(payload) if of_site else contributed.read(payload)
        except WireError as error:
            return None, "", Refusal(error.code, error.words)
        refusal = self._foreign(agent, message.envelope)
        if refusal is None and isinstance(message, RelayedTotal | RelayedCounts):
            refusal = sites.admitted(agent, message, self._site_limits)
        return message, message.digest, refusal

    def _standing(self) -> Standing:
        """Whose classes are there, and what devices may do."""
        extractor = self._catalogue.extractor()
        return Standing(
            self._catalogue.versions[-1],
            self.ledger,
            frozenset(self._catalogue.agreed()),
            frozenset() if extractor is None else frozenset(display.in_bundle(extractor)),
            self._catalogue.policy,
            self._terms.devices,
        )

    @property
    def _site_limits(self) -> SiteLimits:
        """What a site's word must fit."""
        terms, most = self._terms, len(self._catalogue.agreed()) + MOST_CLASSES
        return SiteLimits(
            terms.sites,
            self._catalogue.lineage,
            self.width,
            terms.version.buckets,
            most,
            terms.limits,
            terms.devices,
        )

    def _foreign(self, agent: str, envelope: Envelope) -> Refusal | None:
        if (envelope.agent, envelope.fleet) != (agent, self._messages.topics.fleet):
            return Refusal(Reason.WRONG_AGENT, "the sender is not who the topic says")
        if not self._catalogue.lineage:
            words = "there is no extractor that all devices share: see `coordinator freeze`"
            return Refusal(Reason.NOT_FROZEN, words)
        return None

    def _answer(self, agent: str, message: Contributed, outcome: Placed) -> list[Publication]:
        status, code, words = UploadStatus.ACCEPTED, "", ""
        if outcome.hidden:
            # An operator decides, or has decided: the device need not send it again.
            status = UploadStatus.WAITING if message.claim.source else status
            names = ", ".join(outcome.hidden)
            code, words = Reason.NOT_SHOWN, f"it counts, and is not shown yet: {names}"
        return [self._messages.receipt(agent, 0, message.digest, status, code, words)]

    # what comes of it

    def _changed(self, agent: str, now: float) -> None:
        self._restless_since = min(self._restless_since, now)
        self._dirty, self._changed_at = True, now
        self._recheck_anew = True
        self.comparisons = self.comparisons.upset([agent])

    def _check_again(self, recheck: Recheck, now: float) -> None:
        """One contribution of a total that was read as it was kept."""
        self._compare_at = now + AGAIN
        if self._recheck_anew:
            recheck, self._recheck_anew = Recheck.of(self.ledger), False
        if recheck.ledger.lineage != self.ledger.lineage or not self.ledger.entries:
            self._recheck = None
        elif recheck.open:
            lineage, tables = self.ledger.lineage, self._journal.ledger
            self._recheck = recheck.step(partial(read_summand, tables, lineage))
        else:
            self._recheck = None
            for agent in recheck.unreadable:
                self._log.error("a contribution cannot be read, and is in no sum", agent=agent)
            if not recheck.agrees(self.ledger):
                self._log.error("the total that was kept is wrong: it is added up anew")
                snapshot.remove(self._journal)
                self.ledger = recheck.ledger
                self._changed("", now)

    def _up_to_date(self, now: float) -> str:
        """The hash of what is there, whether it was published or not."""
        if self._dirty:
            self._publish(now)
        return self.version.state.sha256

    def _publish(self, now: float) -> None:
        """Make the version of what is there; its hash is on disk before anybody hears of it."""
        self._published_at = now
        try:
            fresh = version(self.ledger, self._catalogue.agreed(), self.tally, self._terms.version)
        except Exception as error:  # whatever what was let in comes to
            self.trouble = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self._log.error(f"no classifier can be made, the last one stays: {self.trouble}")
            self._dirty, self._counted_at = False, math.inf
            return
        for agent in set(fresh.doubted) - set(self.version.doubted):
            self._log.warning("most others contradict it: it is not heard", agent=agent)
        for agent in set(fresh.misjudging) - set(self.version.misjudging):
            self._log.warning("what it counts is far from what most count: not used", agent=agent)
        self.version, self.trouble = fresh, ""
        self._dirty, self._counted_at = False, math.inf
        newest, hashed = self._journal.ledger.newest(), fresh.state.sha256
        same = newest is not None and (newest.lineage, newest.sha256) == (fresh.lineage, hashed)
        self.number = 0 if newest is None else newest.version
        changes = self._journal.ledger.changes
        begun = newest is not None or fresh.knowledge is not None
        if begun and not (same and newest is not None and newest.changes == changes):
            self.number += 0 if same else 1
            record = VersionRecord(
                self.number, fresh.lineage, fresh.total, fresh.samples, changes, hashed
            )
            with self._journal.commit():
                self._journal.ledger.put_version(record)
            if not same:
                about = {"devices": fresh.devices, "samples": fresh.samples}
                self._log.info("published", version=self.number, **about, state=hashed[:16])
        self.numbered_at = self._journal.ledger.newest_at()
        self._note_accuracy()
        self._show()

    def _note_accuracy(self) -> None:
        """How the fleet does over time: an event whenever other counts are in force."""
        standard = self.held_out
        mark = f"{self.tally.total} {standard.right} {standard.samples}"
        if not standard.samples or mark == self._journal.meta(MEASURED):
            return
        with self._journal.commit():
            self._journal.set_meta(MEASURED, mark)
            self._journal.add_event(
                MEASURED,
                accuracy={"held out": standard.accuracy},
                held_out=standard.samples,
                version=self.number,
                devices=self.version.devices,
                samples=self.version.samples,
            )

    def _heed(self) -> None:
        """Say what is said above, if anything ever is."""
        above, self._catalogue.above = self.above, None
        if above is None:
            return
        self._catalogue.above = above.bank
        self.offered, self._total_message = above.offered(self._catalogue.lineage), None
        if self.offered.total:
            self._total_message = above.total_message(self._topic, self._messages)

    def _show(self) -> None:
        """What the channel says: all of it, and who is to count against it."""
        is_offered = self.offered.total == self.version.total
        self._catalogue.learnt = self.version.learnt(self.offered.share if is_offered else 0.0)

    def _version_due(self, now: float, listeners: int) -> bool:
        rules, counted = self._terms.rules, self._counted_at < math.inf
        interval = max(rules.interval, HEARD_IN * listeners)
        if not (self._dirty or counted) or now - self._published_at < interval:
            return False
        return self._dirty or now - self._counted_at >= rules.settle or not self._owing()

    def _is_calm(self, now: float) -> bool:
        return now - self._changed_at >= self._terms.rules.settle

    def _offer_due(self, now: float) -> bool:
        total, settle = self.version.total, self._terms.rules.settle
        if (
            self.above is not None
            or self._dirty
            or self.version.knowledge is None
            or self.offered.total == total
        ):
            return False
        grew = self.version.samples >= GREW * self.offered.samples
        return self._is_calm(now) or (grew and now - self._restless_since >= settle)

    def _offer(self, now: float) -> None:
        share = min(1.0, self._terms.rules.asked / max(self.version.devices, 1))
        if self._messages.contract.masks is not None:
            share = 1.0  # of a group that was chosen anew each time the differences would tell
        self.offered = OfferedTotal(
            self._catalogue.lineage, self.version.total, self.version.samples, share
        )
        self._restless_since = math.inf
        with self._journal.commit():
            self._journal.set_meta(OFFERED, json.dumps(to_plain(self.offered)))
        self._log.info("to be counted against", samples=self.offered.samples, share=share)
        self._say_total()
        self._show()

    def _say_total(self) -> None:
        self._total_message = None
        if self.offered.total and self.offered.total == self.version.total:
            topics, run = self._messages.topics, self._messages.contract.run
            # By its base a device knows which total it is before it fetches a byte.
            envelope = Envelope(
                "global",
                topics.fleet,
                run,
                self._messages.epoch,
                round=self.number,
                base=self.offered.total,
            )
            payload = self.version.to_count_against(envelope)
            self._total_message = Publication(self._topic, payload, retain=True)

    def _owing(self) -> frozenset[str]:
        """Who is to count and has not."""
        of, drawn = self._drawn
        if of != (self.ledger, self.offered):  # asked with every turn, and a hash of every name
            drawn = frozenset(a for a in self.ledger.agents if self.offered.is_for(a))
            self._drawn = (self.ledger, self.offered), drawn
        return drawn - self.tally.devices if self.tally.total == self.offered.total else drawn

    def _compare(self, now: float) -> None:
        """The next device that was not compared with the others since they changed."""
        self._compare_at = now + PAUSE
        agent, self.comparisons = self.comparisons.next(self.ledger.agents)
        if not self.ledger.of(agent) or self.version.knowledge is None:
            return  # nobody to compare, or what a device said is in a group's total
        own = [
            read_contribution(self._journal.ledger, self._catalogue.lineage, agent, source)
            for source in self.ledger.of(agent)
        ]
        shrinkage = self.version.knowledge.choice.shrinkage
        try:
            fresh = comparison.suspects_of(self.ledger, agent, own, shrinkage)
        except Exception as error:  # whatever the others' sums come to
            words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self._log.error(f"a device cannot be compared with the others: {words}", agent=agent)
            return
        before = self.comparisons.suspects.get(agent, ())
        self.comparisons = self.comparisons.with_suspects(agent, fresh)
        for suspect in set(fresh) - set(before):
            with self._journal.commit():
                self._journal.add_event(
                    "suspect", agent=agent, label=suspect.label, looks_like=suspect.looks_like
                )
            self._log.warning(suspect.sentence, agent=agent)

    @property
    def _topic(self) -> str:
        return self._messages.topics.proto(TOTAL)

    @property
    def width(self) -> int:
        """Of features under the extractor that there is."""
        extractor = self._catalogue.extractor()
        if extractor is None:
            return 0
        points = extractor.points
        return points.weight.shape[1] if isinstance(points, Head) else points.dim


def _why(agent: str, before: Standing, outcome: Placed) -> str:
    """What a device's contribution changed of the book, as versions are listed."""
    brought = sorted(outcome.book.brought.keys() - before.book.brought.keys())
    waiting = sorted(outcome.book.pending.keys() - before.book.pending.keys())
    words = [", ".join(brought)] * bool(brought)
    words += [f"{', '.join(waiting)} waiting"] * bool(waiting)
    return f"{'; '.join(words) or 'a class anew'} from {agent}"
