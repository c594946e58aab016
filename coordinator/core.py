"""The coordinator without its network: messages in, messages out, and a journal that is always
ahead of what is said.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from coordinator import devices
from coordinator.allowance import Allowance
from coordinator.config import LedgerSection, RolloutSection
from coordinator.devices import Patience
from coordinator.errors import JournalError
from coordinator.ingestion.words import HeardBatch, OpenRound, RowBatch, UploadRow
from coordinator.journal.journal import Journal
from coordinator.journal.records import ACCEPTED, HELD, CutRecord, RoundRecord, UploadRecord
from coordinator.journal.segments import Span
from coordinator.journal.signatures import ProofRecord
from coordinator.ledger import display
from coordinator.ledger.above import Above
from coordinator.ledger.admission import Policy
from coordinator.ledger.catalogue import Catalogue
from coordinator.ledger.extractor import read_bundle
from coordinator.ledger.gathering import Gathering
from coordinator.ledger.keeper import Forgotten, Keeper, LedgerTerms
from coordinator.ledger.versions import VersionTerms
from coordinator.messages import Messages
from coordinator.rollouts import summary
from coordinator.rollouts.steering import LONGEST_NAME, Rollouts, RolloutTerms
from coordinator.rounds import machine
from coordinator.rounds.following import RoundAbove, waiting
from coordinator.rounds.machine import RoundRules, RunState
from coordinator.rounds.selection import lots_of
from coordinator.rounds.tally import RoundTally
from coordinator.uploads.aggregate import AGREED, Aggregator
from coordinator.uploads.assembly import Assembly, of_round
from coordinator.uploads.folding import Group
from coordinator.uploads.fuse import fuse_total, noised, start_state
from coordinator.uploads.intake import Intake
from coordinator.uploads.validation import Expected, Refusal
from protofleet import registry, wire
from protofleet.budget.noise import Sampler, drawn
from protofleet.budget.private import Private
from protofleet.errors import FusionError, TrustError, UsageError, WireError
from protofleet.exchange import contributed, pooled, relayed
from protofleet.exchange.lots import Lots
from protofleet.exchange.rollouts import TrialTerms
from protofleet.exchange.state import GlobalState
from protofleet.mqtt.link.events import Publication
from protofleet.mqtt.topics import TopicParts, Topics
from protofleet.recipe import Turn
from protofleet.settings.fields import from_plain
from protofleet.statistics.adoption import Verdict
from protofleet.trust.sequence import Numbers
from protofleet.util.logs import Log
from protofleet.values.prototypes import Parts
from protofleet.values.sums import Partial
from protofleet.wire import Message, epochs
from protofleet.wire.codes import Reason

# Theory of operation
#
# The core owns everything that is true of a run and speaks to nobody. `take` is given what arrived
# and returns what is to be published; the service carries both. Between them lies one rule: what is
# said is on disk. A device deletes an upload when it has a receipt for it, so a receipt for what a
# crash may still take away would lose an upload that nobody can make again.
#
# One call of `take` goes through these steps, and their order is the protocol:
#
#   1. Every arrival is looked at alone. An upload that passes is folded into the open round's total
#      and waits in `intake.fresh`; births change `devices`; refusals are answered at once, as they
#      promise nothing.
#   2. One commit writes all fresh uploads and births. A commit waits for the disk: one for a whole
#      batch instead of one each is what lets a coordinator take thousands of uploads a second.
#   3. Now receipts are made, and who answered is told to the rounds' machine.
#   4. The machine's actions are performed: a cut is one commit, the state that comes of it another,
#      the opening of the next round a third, each before its publications are made.
#   5. A `Tick` with the devices that are there now lets deadlines pass and rounds open.
#
# Uploads are folded before they are on disk, so after a write that failed the totals here are
# ahead of the journal. Nothing is repaired in place: `recover` builds everything anew from the
# journal, as a process does that has just started. It is the same code for a crash and for a full
# disk, so it is used often enough to work.
#
# A crash may fall between any two commits. What `recover` finds, and does:
#
#   no round                              wait for devices
#   a round without a cut                 fold its accepted uploads again and go on collecting;
#                                         where it has a group for a masked sum, go on with that
#   a cut whose state is not there        fold what the cut names, in any order, and fuse
#   a cut with its state, or of a round   the round is over: open the next
#     without exchange
#
# A cut that cannot be fused. What was let in may still be what no recipe can work with: a matrix
# without an inverse, sums that cannot be joined. Whatever a recipe raises then ends in `_fuse`: the
# cut is journalled as failed, with the reason, and its state is the one that was there before it.
# So devices hear of a new state and go on, and neither a restart nor a replay tries it again. A
# fusion that ends the process itself (no memory left) is given up after ATTEMPTS starts.
#
# Under a budget (`protofleet.budget.private`) a cut has noise, which is drawn before the commit of
# the cut and written in it. So whatever crashes, a total is published with one noise: before the
# commit nobody has seen what was drawn, and after it nothing is drawn any more. A publication is a
# cut, whatever comes of it; after the last one no round opens, and the state stays.
#
# The third is why a cut names its uploads with their weights: the state that comes out is the same
# to the bit, since the folds add exactly. Uploads that arrive after the cut find the round closed,
# whether or not its state was written before the crash.
#
# The machine's state is written by `machine.step` alone. Actions lead to further events (`Fuse` to
# `Fused`), which queue behind those of the same batch: `coordinator.rounds.machine` says why.


LEDGER = "fleet"  # the method that is a ledger
OF_SITES = (*relayed.METHODS, contributed.WITHDRAW)  # sums of many: masks hold below them
ATTEMPTS = 5  # starts of the process that may end in one and the same fusion
ATTEMPT = "attempt"  # what the journal calls that round, and how many there were
LONGEST_WORDS = 300  # of an error that is kept
HEARD_EPOCH = "heard epoch"  # what the journal calls the highest that a device follows
LOOK = 1.0  # seconds between looks at who of those asked is gone
MEASURES = 16  # of accuracy, by name: evaluators have few
# Bytes of uploads that are decoded before the first of them is judged. One after the other in small
# steps, decoder and judge would drive each other's code out of the processor's cache; what is
# decoded has to stay in it, too.
AHEAD = 1 << 19
NAMED = 20  # of missing devices, where they are written down or logged
# What an operator says of a rollout that begins.
STARTING = ("groups", "canaries", "error", "trigger", "patience", "trial")


@dataclass(frozen=True)
class Terms:
    """What the coordinator goes by, beside the rules of rounds."""

    expected: Expected
    hyper: Any
    staleness: int
    everyone: bool  # all devices take part, so one that joins in the middle may answer, too
    patience: Patience
    enrol: Policy = "auto"
    devices: int = 10_000  # at most; beyond them a new one takes the place of one that is gone
    ledger: LedgerSection = field(default_factory=LedgerSection)
    rollout: RolloutSection = field(default_factory=RolloutSection)
    private: Private | None = None  # the method under a budget, where there is one
    sampler: Sampler = drawn  # of its noise
    is_site: bool = False  # rounds are opened above, and their states are made there


class Ingestion(Protocol):
    """What the core asks of the processes that take uploads in."""

    def taken(self, batch: HeardBatch, back: Sequence[int]) -> None:
        """Its rows are in the journal, all but these."""

    def totals(self, serial: int) -> Iterator[Group]:
        """All that they folded of what was taken."""


class Core:
    """One run of one fleet."""

    def __init__(
        self,
        journal: Journal,
        rules: RoundRules,
        terms: Terms,
        topics: Topics,
        messages: Messages,
        log: Log,
    ) -> None:
        self.journal, self.rules, self.terms = journal, rules, terms
        self.topics, self.messages, self.log = topics, messages, log
        self.aggregator = Aggregator(journal, terms.expected, terms.hyper, terms.staleness)
        self._drawn: Lots | None = None  # of the newest round that anybody asked about
        masked = terms.expected.contract.masks is not None
        self.assembly = (
            Assembly(journal, terms.expected.contract, messages, log) if masked else None
        )
        self.intake = Intake(
            journal,
            terms.expected,
            self.aggregator,
            messages,
            log,
            terms.staleness,
            self._asks,
            self.assembly,
        )
        self.catalogue = Catalogue(journal, messages, terms.enrol, log, terms.expected.limits)
        # The method that needs no rounds: what is true of its run is true of its ledger.
        self.is_ledger = terms.expected.recipe.traits.frozen and terms.private is None
        self.catalogue.by_rounds = terms.private is not None
        if terms.private is not None and not masked:  # else nobody sees what a device says
            self.intake.unclipped = self._unclipped
        self.keeper = Keeper(
            journal, self.catalogue, messages, ledger_terms(terms), log, self.intake.refuse
        )
        self.rollouts = Rollouts(journal, self.catalogue, messages, terms.rollout, log)
        self.allowance, self.tally = Allowance(), RoundTally()
        self.gathering: Gathering | None = None
        if self.assembly is not None and self.is_ledger:
            contract = terms.expected.contract
            self.gathering = Gathering(
                journal,
                self.keeper,
                self.assembly,
                contract,
                log,
                self.intake.refuse,
                rules.timeout,
            )
        self.devices = devices.NOBODY
        self._written: dict[str, dict[str, Any]] = {}  # births as the journal has them
        self._forgotten: set[str] = set()  # devices, since the journal was written last
        self._postponed: dict[str, bytes] = {}  # the newest birth of devices that say too many
        self._look_at = -math.inf  # when to see again who of those asked is gone
        self._contributions: list[tuple[str, bytes]] = []  # of this batch, not taken in yet
        self.run_state, self.round_above = RunState(), RoundAbove()
        self.base_round, self.state = 0, GlobalState()
        self._born: set[str] = set()  # whose birth or death was heard in this batch
        # The highest that a device follows, and as far as the journal knows of it.
        self._heard_epoch = self._noted_epoch = messages.epoch
        self.numbers: Numbers | None = None  # of signatures that were taken
        # With the message, or where it lies; not written yet.
        self._proofs: list[tuple[ProofRecord, bytes | Span]] = []
        self.crew: Ingestion | None = None  # the processes that take uploads in beside this one
        self._closing: CutRecord | None = None  # cut, and without a state yet
        self._refold = False  # its uploads were folded in an earlier life
        self._started = False

    def recover(self, now: float) -> list[Publication]:
        """Stand where the journal says; close what was cut before it could be fused."""
        self._contributions = []
        newest = self.journal.state()
        if newest is None:
            newest = 0, start_state(self.terms.expected.recipe, self.aggregator.turn(0))
            with self.journal.commit():
                self.journal.add_state(*newest)
        self.intake.recover(newest[0])
        self.rollouts.recover(now)
        self._recover_ledger(now)
        self._stand_at(*newest)
        self._follow_ledger()
        # Known devices count as just lost until they speak, so that a restart does not change who
        # is asked.
        self._written = self.journal.agents()
        self.devices = devices.from_births(self._written, now).plus(self.devices)
        resumed = self._resumed(now)
        self.devices = devices.all_asked(self.devices, resumed.asked, now)
        self._look_at = -math.inf
        return self._advance([resumed, machine.Tick(self._eligible(now))], now)

    def _resumed(self, now: float) -> machine.Resumed:
        """Where the journal stands; the aggregator is brought there, too."""
        paused = self.journal.meta("paused") == "yes"
        rounds = self.journal.rounds(last=1)
        if not rounds:
            return machine.Resumed(0, (), frozenset(), paused, "waiting")
        (newest,) = rounds
        cut = self.journal.cut(newest.round)
        accepted = self.journal.uploads(newest.round, "accepted")
        answered = frozenset(upload.agent for upload in accepted) | self._held_agents(newest.round)
        phase: machine.ResumedPhase = "waiting"
        if cut is None:
            self.aggregator.begin(newest.round, accepted)
            deadline = now + self.rules.timeout
            met = self.assembly is not None and self.assembly.recover(newest.round, deadline)
            phase = "closing" if met else "collecting"
        elif newest.talks and self.base_round < newest.round:
            self._closing, self._refold = self._attempted(cut), True
            phase = "closing"
        self._started = True
        return machine.Resumed(newest.round, newest.asked, answered, paused, phase)

    def _attempted(self, cut: CutRecord) -> CutRecord:
        """The cut, failed if this process is not the first that begins with it."""
        if self._started or cut.failed:
            return cut
        number, _, count = (self.journal.meta(ATTEMPT) or "").partition(" ")
        attempts = 1 + (int(count) if number == str(cut.round) else 0)
        with self.journal.commit():
            self.journal.set_meta(ATTEMPT, f"{cut.round} {attempts}")
        words = f"the process ended {attempts - 1} times while it was fused"
        return replace(cut, failed=words) if attempts > ATTEMPTS else cut

    def greetings(self) -> list[Publication]:
        """Everything retained, said on every connection: brokers forget."""
        publications = [
            self.messages.state(self.run_state, self.rules),
            # A ledger's state is in its channel, and its sums are nobody's to fetch.
            *([] if self.is_ledger else [self.messages.train(self.base_round, self.state)]),
            *self._own_parts(self.base_round, self.state),
            # Before what all are to have: a device may be one of those that have to try it first.
            *self.rollouts.greetings(),
            *self._channel(),
            *self._group_words(),
        ]
        # Before there is a round, too: a device says nothing of its samples to a run of which it
        # does not know how it is spoken to.
        return [*publications, self._announcement()]

    def take(
        self,
        arrivals: Iterable[tuple[TopicParts, bytes]],
        now: float,
        batches: Sequence[HeardBatch] = (),
    ) -> list[Publication]:
        """Deal with what arrived, here and at ingesters; the answers are true once this returns."""
        publications: list[Publication] = []
        taken = [(heard, self._returned(heard.batch)) for heard in batches]
        events: list[machine.Event] = []
        for agent, payload in self._births_due(now):
            publications += self._take_birth(agent, payload, now, events)
        for topic, payload, message in self._read(arrivals, now):
            if topic.agent is None:
                continue
            if message is not None:
                if not self.allowance.is_spent("refusal", topic.agent, now):
                    publications += self._take_upload(topic, payload, message, now)
            elif not _is_upload(topic):
                publications += self._take_small(topic, payload, now, events)
        publications += self._take_contributions(now)
        births, epoch = self._births_to_write(), self._heard_epoch
        numbers = {} if self.numbers is None else self.numbers.fresh
        if self.intake.has_news or births or epoch > self._noted_epoch or numbers:
            with self.journal.commit():
                self._write_signatures(numbers)
                self.intake.write()
                for agent, record in births.items():
                    self.journal.add_agent(agent, record)
                self.journal.drop_agents(self._forgotten)
                if epoch > self._noted_epoch:
                    self.journal.set_meta(HEARD_EPOCH, str(epoch))
            self._written.update(births)
            self._forgotten, self._noted_epoch = set(), epoch
        written = self.intake.written()
        if self.crew is not None:
            for heard, back in taken:
                self.crew.taken(heard, back)
        # Of a device whose birth or death came in this batch, too, that is the later word.
        alive = [upload.agent for upload in written if upload.agent not in self._born]
        self.devices, self._born = devices.all_alive(self.devices, alive, now), set()
        counting = self._counting_statuses()
        for upload in written:
            status = self.intake.status_of(upload)
            receipt = self.messages.receipt(upload.agent, upload.round, upload.digest, status)
            publications.append(receipt)
        publications += self.intake.noted()
        answered = frozenset(upload.agent for upload in written if upload.status in counting)
        events += [machine.Answered(answered)] if answered else []
        publications += self._advance(events, now)
        publications += self._assemble(now)
        publications += self._look_at_ledger(now)
        look = self.rollouts.look
        publications += self._steered(lambda: look(self.devices, self.terms.patience, now), now)
        # A batch of its own: a round that opened just now may be full already.
        return publications + self._advance([self._tick(now)], now)

    def _read(
        self, arrivals: Iterable[tuple[TopicParts, bytes]], now: float
    ) -> Iterator[tuple[TopicParts, bytes, Message | WireError | None]]:
        """What arrived, in its order, uploads decoded unless their device is to be dropped."""
        read: list[tuple[TopicParts, bytes, Message | WireError | None]] = []
        size = 0
        for topic, payload in arrivals:
            message: Message | WireError | None = None
            if _is_upload(topic) and not self.allowance.is_spent("refusal", str(topic.agent), now):
                message = self.intake.read(payload)
            read.append((topic, payload, message))
            size += len(payload)
            if size >= AHEAD:
                yield from read
                read, size = [], 0
        yield from read

    def _take_upload(
        self, topic: TopicParts, payload: bytes, message: Message | WireError, now: float
    ) -> list[Publication]:
        agent, round = str(topic.agent), int(topic.rest[0])
        if topic.proof is not None:
            self._prove(topic, payload)
        answers = self.intake.take(agent, round, payload, message, self.run_state)
        if answers:  # what is let in is answered when it is written
            self.allowance.spend("refusal", agent, now)
        return answers

    def _returned(self, batch: RowBatch) -> list[int]:
        """Take an ingester's rows; those that are none for the open round, by their places."""
        if batch.serial != self.aggregator.serial:
            return list(range(len(batch.rows)))
        return [at for at, row in enumerate(batch.rows) if not self._take_row(row)]

    def _take_row(self, row: UploadRow) -> bool:
        """Whether it is taken. Its signature holds; whether it was said before is looked at here,
        as only one may count.
        """
        try:
            under = None
            if row.proof is not None and self.numbers is not None:
                under = self.numbers.check(row.agent, "upload", row.lane, row.number)
        except TrustError:
            return False
        state = self.run_state
        if not self.intake.take_written(row.agent, row.round, row.digest, row.span, state):
            return False
        if row.proof is not None and self.numbers is not None and under is not None:
            self.numbers.take(under, row.number)
            signature, digest = row.proof
            self._proofs.append((ProofRecord(row.agent, row.round, digest, signature), row.span))
        return True

    @property
    def standing(self) -> OpenRound:
        """For which round ingesters may let uploads in: where sums are masked, and under a budget,
        for none.
        """
        state, serial = self.run_state, self.aggregator.serial
        hidden = self.assembly is not None or self.terms.private is not None
        opened = None
        if state.phase == "collecting" and not hidden:
            opened = self._round(state.number)
        if opened is None or not opened.talks:
            return OpenRound(serial, 0, "", 1, "")
        weight, agreed = self.aggregator.weight(opened.round), self.journal.meta(AGREED) or ""
        return OpenRound(serial, opened.round, opened.base, weight, agreed)

    def _prove(self, topic: TopicParts, payload: bytes) -> None:
        """Keep what proves who said it, where that was asked for."""
        if topic.proof is not None:
            signature, digest = topic.proof
            proof = ProofRecord(str(topic.agent), int(topic.rest[0]), digest, signature)
            self._proofs.append((proof, payload))

    def _write_signatures(self, numbers: dict[tuple[str, str], int]) -> None:
        """What was taken is not taken again, and who said it can be shown: in the commit of what
        was said.
        """
        fresh = self.intake.fresh
        proofs = [
            proof
            for proof, payload in self._proofs
            if not proof.round
            or ((new := fresh.get((proof.round, proof.agent))) and new.body is payload)
        ]
        self._proofs = []
        if numbers:
            self.journal.signatures.put_heard(numbers)
            numbers.clear()
        if proofs:
            self.journal.signatures.put_proofs(proofs)

    def heard(self, agents: Iterable[str], now: float) -> None:
        """These devices said something that is not for the core: they are there."""
        self.devices = devices.all_alive(self.devices, agents, now)

    def pause(self, paused: bool, now: float) -> list[Publication]:
        """Stop or let go the opening of rounds."""
        with self.journal.commit():
            self.journal.set_meta("paused", "yes" if paused else "no")
            self.journal.add_event("paused" if paused else "resumed", self.run_state.number)
        tick = machine.Tick(self._eligible(now), self.run_state.gone)
        publications = self._advance([machine.Paused(paused), tick], now)
        return [*publications, self.messages.state(self.run_state, self.rules)]

    def classes(
        self, command: str, arguments: Mapping[str, Any], now: float
    ) -> tuple[dict[str, Any], list[Publication]]:
        """An operator's word on the fleet's classes or its extractor: the answer, and what the
        fleet is told by it.
        """
        if command == "freeze":
            said = self._freeze(arguments, now)
            return self.catalogue.execute("list", {}, self.base_round, self.state)[0], said
        if command in ("back", "remove"):
            self.rollouts.at_once()
        extractor = self.catalogue.extractor()
        answer, changed = self.catalogue.execute(command, arguments, self.base_round, self.state)
        if self.catalogue.extractor() != extractor:
            self._recover_ledger(now)
            self._follow_ledger()
            answer, _ = self.catalogue.execute("list", {}, self.base_round, self.state)
        return answer, self._channel() if changed else []

    def _freeze(self, arguments: Mapping[str, Any], now: float) -> list[Publication]:
        """A rollout whose first group is everybody, who hold it to its self-test and no more."""
        file = Path(str(arguments["file"]))
        self._must_be_free()
        if arguments.get("if_better"):
            other, _ = read_bundle(file)
            verdict = Verdict(self.keeper.held_out, other.held_out)
            if not verdict.is_better:
                raise UsageError(verdict.sentence)
        by = str(arguments.get("by", ""))[:LONGEST_NAME]
        terms = RolloutTerms(error=0.5, trial=TrialTerms(compare=False, soak=0.0), by=by)
        start, agents = self.rollouts.start, list(devices.pupils(self.devices))
        return self._steered(lambda: start(file, terms, agents, now, whole=True), now)

    def rollout(
        self, command: str, arguments: Mapping[str, Any], now: float
    ) -> tuple[dict[str, Any], list[Publication]]:
        """An operator's word on a rollout: how it stands, and what the fleet is told by it."""
        rollouts, by = self.rollouts, str(arguments.get("by", ""))[:LONGEST_NAME]
        words: dict[str, Callable[[str, float], list[Publication]]] = {
            "halt": rollouts.halt,
            "resume": rollouts.resume,
            "back": rollouts.back,
        }
        if command == "start":
            plain = {n: v for n, v in arguments.items() if n in STARTING}
            file, terms = (
                Path(str(arguments["file"])),
                from_plain(RolloutTerms, {**plain, "by": by}),
            )
            self._must_be_free()
            start, agents = rollouts.start, list(devices.pupils(self.devices))
            said = self._steered(lambda: start(file, terms, agents, now, whole=False), now)
        elif command in words:
            said = self._steered(lambda: words[command](by, now), now)
        else:
            raise UsageError(f"rollout: no command {command!r}")
        return summary.status(rollouts, now), said

    def _must_be_free(self) -> None:
        if self.terms.private is not None:
            words = "a run with a budget keeps the extractor that it began with"
            raise UsageError(words, "another one is another run")

    def _steered(self, steer: Callable[[], list[Publication]], now: float) -> list[Publication]:
        """What is said of rollouts, and the channel where all devices are to run something else."""
        extractor, stamp = self.catalogue.extractor(), self.rollouts.stamp
        said = steer()
        if self.rollouts.stamp == stamp:
            return said
        if self.catalogue.extractor() != extractor:
            self._recover_ledger(now)  # another lineage, another ledger
            self._follow_ledger()
        return [*said, *self._channel()]

    def forget(self, agent: str, now: float) -> tuple[Forgotten, list[Publication]]:
        """A device leaves for good, with all that it contributed."""
        known = agent in self.devices or agent in self.keeper.ledger.agents
        if site := self.keeper.ledger.site_of(agent):
            words = f"{agent} is a device of the site {site}: it is to be forgotten there"
            raise UsageError(words, f"`coordinator forget {agent}` on the machine of {site}")
        if not known and not self.keeper.ledger.of(agent):
            raise UsageError(f"there is no device {agent!r}", "`coordinator agents` shows them")
        if self.gathering is not None and not self.keeper.ledger.of(agent):
            gone = self.gathering.forget(agent, now)
        else:
            gone = self.keeper.forget(agent, now)
        self._follow_ledger()
        self.devices = self.devices.minus([agent])
        self._written.pop(agent, None)
        with self.journal.commit():
            self.journal.drop_agents([agent])
            self.rollouts.forget(agent)
        self._stand_at(self.base_round, self.state)
        return gone, self._channel()

    def follow(self, above: Above) -> list[Publication]:
        """A site's fleet above said something: so does the site."""
        self.keeper.follow(above)
        return self._channel()

    def follow_round(self, above: RoundAbove, now: float) -> list[Publication]:
        """A site's fleet above said which round is open."""
        self.round_above = above
        skipped = above.skipped(self.run_state)
        publications = [] if skipped is None else self._advance([skipped], now)
        return publications + self._advance([self._tick(now)], now)

    def follow_state(self, number: int, state: GlobalState, now: float) -> list[Publication]:
        """A site's fleet above said what came of a round: so it is here, whatever came of it."""
        if number <= self.base_round:
            return []
        with self.journal.commit():
            self.journal.add_state(number, state)
        self._closing = None
        self._stand_at(number, state)
        publications = self._published(number, state)
        if number >= self.run_state.number:
            publications += self._advance([waiting(number, self.run_state)], now)
            publications.append(self._announcement())
        return publications + self._advance([self._tick(now)], now)

    @property
    def awaits_state(self) -> bool:
        """Whether a site's round is cut, and what comes of it is to be said above."""
        return self.terms.is_site and self.run_state.phase == "closing"

    def pooled(self) -> tuple[int, str, Parts]:
        """Of that round the number, the state that it was on, and a site's upload; no parts where
        nothing is exchanged.
        """
        opened = self._round(self.run_state.number)
        cut = self.journal.cut(opened.round)
        assert cut is not None  # it is closing
        if not opened.talks:
            return opened.round, opened.base, {}
        members, total = self.aggregator.members_of(cut), self.aggregator.total_of(cut)
        return opened.round, opened.base, pooled.parts_of(members, total)

    def accuracy(self) -> dict[str, float]:
        """Means over the devices that reported on the newest state."""
        return {name: fmean(numbers) for name, numbers in self._reported().items()}

    def spread(self) -> dict[str, float]:
        """Standard deviations beside `accuracy`."""
        return {name: deviation(numbers) for name, numbers in self._reported().items()}

    def _reported(self) -> dict[str, list[float]]:
        """By the measure's name, what every device said of the newest state."""
        by_name: dict[str, list[float]] = {}
        for device in self.devices.values():
            if device.round == self.base_round:
                for name, share in device.accuracy.items():
                    by_name.setdefault(name, []).append(share)
        # What most devices measure, should some have measures of their own.
        usual = sorted(by_name, key=lambda name: (-len(by_name[name]), name))[:MEASURES]
        return {name: by_name[name] for name in sorted(usual)}

    # messages

    def _take_small(
        self, topic: TopicParts, payload: bytes, now: float, events: list[machine.Event]
    ) -> list[Publication]:
        """What a device may say only so often: offers of classes, births, reports."""
        kind, agent = topic.kind, str(topic.agent)
        if kind == "upload" and self.allowance.spend("offer", agent, now):
            self._prove(topic, payload)
            return self._take_offer(agent, payload, now)
        if kind == "state" and payload:
            if self.allowance.spend("birth", agent, now):
                self._postponed.pop(agent, None)
                return self._take_birth(agent, payload, now, events)
            if len(self._postponed) < self.terms.devices:
                self._postponed[agent] = payload
        if kind == "report" and self.allowance.spend("report", agent, now):
            events += self._take_report(agent, payload, now)
        if kind == "reported" and payload and self.allowance.spend("reported", agent, now):
            # Retained: of a device that nobody knows it may be years old.
            fits = agent not in self.devices or self.rollouts.take(agent, payload)
            if not fits:
                self.allowance.count("reported")
        return []

    def _take_offer(self, agent: str, payload: bytes, now: float) -> list[Publication]:
        """What devices say of round 0: classes by prototypes, or what a ledger is made of."""
        try:
            envelope, body = wire.unseal(payload)
        except WireError as error:
            return self.intake.refuse(agent, 0, "", Refusal(error.code, error.words))
        if self.gathering is not None and envelope.t == "letter":
            return self.gathering.take(agent, payload, now)
        of_site = agent in self.terms.expected.sites and envelope.method in OF_SITES
        if self.assembly is not None and not of_site:
            refusal = Refusal(Reason.MASKED, "sums are masked here: nothing is said that is not")
            return self.intake.refuse(agent, 0, "", refusal)
        if self.terms.private is not None:
            words = "this fleet has a budget: what devices have to say they say in its rounds"
            refusal = Refusal(Reason.BUDGET, words)
            return self.intake.refuse(agent, 0, sha256(body).hexdigest(), refusal)
        if envelope.method in (*contributed.METHODS, *relayed.METHODS):
            return self._take_contribution(agent, payload, now)
        return self.rollouts.staged(
            self.catalogue.take_offer(agent, payload, self.base_round, self.state)
        )

    def _take_contribution(self, agent: str, payload: bytes, now: float) -> list[Publication]:
        """With the others of its batch; what a site says may wipe what was there, and is a commit
        of its own.
        """
        if agent in self.terms.expected.sites:
            return [*self._take_contributions(now), *self._keep(agent, payload, now)]
        self._contributions.append((agent, payload))
        return []

    def _take_contributions(self, now: float) -> list[Publication]:
        """All that came in one batch, in one commit."""
        batch, self._contributions = self._contributions, []
        if len(batch) <= 1:
            return [said for agent, payload in batch for said in self._keep(agent, payload, now)]
        with self.keeper.batch():
            return [said for agent, payload in batch for said in self._keep(agent, payload, now)]

    def _keep(self, agent: str, payload: bytes, now: float) -> list[Publication]:
        refusals = self.intake.counters.refusals
        answers = self.keeper.take(agent, payload, now)
        if self.intake.counters.refusals == refusals:
            self.intake.counters.newest.pop(agent, None)
        return answers

    def _births_due(self, now: float) -> list[tuple[str, bytes]]:
        """Births that had to wait, of devices that may say another by now."""
        waiting = list(self._postponed) if self._postponed else []
        due = [agent for agent in waiting if self.allowance.may("birth", agent, now)]
        return [(agent, self._postponed.pop(agent)) for agent in due]

    def _births_to_write(self) -> dict[str, dict[str, Any]]:
        """What the journal does not know of devices, of those that were born or died just now."""
        news: dict[str, dict[str, Any]] = {}
        for agent in self._born:
            device = self.devices.get(agent)
            # A device that was merely lost is no news for the journal: it is expected back.
            if device is not None and (device.online or device.left):
                record = {**device.about, "left": device.left}
                if self._written.get(agent) != record:
                    news[agent] = record
        return news

    def _take_birth(
        self, agent: str, payload: bytes, now: float, events: list[machine.Event]
    ) -> list[Publication]:
        """Nobody waits for an answer to a birth, so one that cannot be used is counted and no
        more: a receipt could be taken for that of something else.
        """
        message = self._control(agent, payload, "birth")
        if message is None:
            return []
        versions = message.body.get("wire", [wire.VERSION])
        if wire.VERSION not in (versions if isinstance(versions, list) else []):
            words = f"it speaks wire versions {versions}"[:200] + f", here it is {wire.VERSION}"
            self.intake.refuse(agent, 0, message.digest, Refusal(Reason.WIRE_VERSION, words))
            return []
        if agent not in self.devices and not self._room_for_another(now):
            self.allowance.count("device")
            return []
        boot, epoch = message.envelope.boot or "", message.envelope.epoch or 0
        self._note_epoch(agent, message.envelope.run, epoch)
        body, most = dict(message.body), self.terms.expected.limits.samples
        samples = body.get("samples")
        if type(samples) is int and not 0 <= samples <= most:
            del body["samples"]  # a device may be there, and what it says of itself be no number
        self.devices = devices.with_birth(self.devices, agent, boot, body, now, epoch)
        device = self.devices.get(agent)
        if device is None:
            return []
        self._born.add(agent)
        self._forgotten.discard(agent)
        events += [machine.Excused(agent)] if device.left else []
        own = device.online and self.state.own
        return [self.messages.own(agent, self.base_round, self.state)] if own else []

    def _room_for_another(self, now: float) -> bool:
        most = self.terms.devices
        if len(self.devices) >= most:
            oldest = devices.longest_gone(self.devices, now, self.terms.patience)
            if oldest is not None:
                self.devices = self.devices.minus([oldest])
                self._written.pop(oldest, None)
                self._forgotten.add(oldest)
        return len(self.devices) < most

    def _take_report(self, agent: str, payload: bytes, now: float) -> list[machine.Event]:
        message = self._control(agent, payload, "report")
        if message is None:
            return []
        if self.terms.private is not None:
            # Whatever it measured is of its own samples, and nobody added noise to it.
            only = ("round", "refused")
            body = {name: value for name, value in message.body.items() if name in only}
            message = message._replace(body=body)
        if "drift" in message.body:
            if agent not in self.devices or not self.keeper.take_drift(
                agent, message.body["drift"], now
            ):
                self.allowance.count("drift")
            self.devices = devices.alive(self.devices, agent, now)
            return []
        if isinstance(message.body.get("notice"), str):
            notice = message.body["notice"][: devices.LONGEST_WORDS]
            self.devices = devices.alive(self.devices, agent, now, notice=notice)
            return []
        accuracy, reason = message.body.get("accuracy"), message.body.get("refused")
        number = message.envelope.round
        reason = reason[:250] if isinstance(reason, str) else ""
        changes: dict[str, Any] = {"declines": reason}
        if isinstance(accuracy, dict):
            shares = [
                (name[:64], float(share))
                for name, share in itertools.islice(accuracy.items(), MEASURES)
                if type(share) in (int, float) and 0 <= share <= 1
            ]
            if len(accuracy) > MEASURES:
                self.allowance.count("measure")
            changes |= {"accuracy": dict(shares), "round": number}
        before = self.devices.get(agent)
        self.devices = devices.alive(self.devices, agent, now, **changes)
        if reason and number == self.run_state.number:
            if before is not None and before.declines != reason:
                self.log.info("will not train", agent=agent, round=number, reason=reason)
            return [machine.Excused(agent)]
        return []

    def _note_epoch(self, agent: str, run: str | None, epoch: int) -> None:
        """Devices follow the highest epoch: one above ours is of somebody else, and this
        coordinator's next life goes above it.
        """
        if epoch <= self._heard_epoch or not epochs.is_credible(epoch, self.messages.epoch):
            return
        self._heard_epoch = epoch
        # Of another run it may be what was there before this one.
        if run == self.messages.contract.run:
            self.log.warning(
                "a device follows a higher epoch: somebody else spoke to it in this fleet's name;"
                " started again this coordinator goes above it",
                agent=agent,
                epoch=epoch,
            )

    def _control(self, agent: str, payload: bytes, kind: str) -> Message | None:
        try:
            message = wire.decode(payload)
        except WireError as error:
            self.intake.refuse(agent, 0, "", Refusal(error.code, error.words))
            return None
        envelope = message.envelope
        fits = (envelope.t, envelope.agent, envelope.fleet) == (kind, agent, self.topics.fleet)
        return message if fits else None

    # the ledger

    def _look_at_ledger(self, now: float) -> list[Publication]:
        began = self.tally.clock()
        called = []
        if self.gathering is not None:
            pupils = devices.pupils(self.devices)  # of a site its own coordinator makes groups
            present = devices.eligible(pupils, now, self.terms.patience)
            called = self.gathering.look(present, now)
        published, publications = self.keeper.look(now, len(self.devices))
        if published:
            self.tally.versions = self.tally.versions.plus(self.tally.clock() - began)
            self._follow_ledger()
            publications = [*self._stable_channel(), *publications]
        return called + publications

    def _recover_ledger(self, now: float) -> None:
        self.keeper.recover(now)
        if self.gathering is not None:
            self.gathering.recover(now)

    def _stable_channel(self) -> list[Publication]:
        """What all devices classify with."""
        said = self.catalogue.publications(self.base_round, self.state)
        return self.rollouts.staged(said)

    def _follow_ledger(self) -> None:
        """Where there is nothing else, its version is the run's state."""
        if self.is_ledger:
            self.base_round, self.state = self.keeper.number, self.keeper.version.state

    def _channel(self) -> list[Publication]:
        """What devices classify with, and what they count against."""
        return [*self._stable_channel(), *self.keeper.greetings()]

    # rounds

    def _advance(self, batch: Sequence[machine.Event], now: float) -> list[Publication]:
        """Events through the rounds' machine, and what comes of them; those that follow from its
        actions queue behind those that are there.
        """
        publications: list[Publication] = []
        events = deque(batch)
        while events:
            event = events.popleft()
            self.run_state, actions = machine.step(self.rules, self.run_state, event, now)
            for action in actions:
                match action:
                    case machine.Open(number, participants):
                        publications += self._open(number, participants, now)
                        events.append(machine.Counted(self._held_agents(number)))
                    case machine.Cut(number, reason):
                        publications += self._cut(number, reason, now)
                    case machine.Fuse() if self._is_assembling or self.terms.is_site:
                        pass  # it goes on once its group is over, or the fleet above has said so
                    case machine.Fuse(number):
                        publications += self._fuse(number)
                        events.append(machine.Fused(self._eligible(now)))
                    case machine.PutOff(number, missing):
                        publications += self._put_off(number, missing)
                    case machine.Rest(number):
                        publications += self._rest(number)
        return publications

    def _open(self, number: int, participants: Sequence[str], now: float) -> list[Publication]:
        talks = self.terms.expected.recipe.talks(self.aggregator.turn(number))
        base, base_round = self.state.base, self.base_round
        opened = RoundRecord(number, base, base_round, tuple(participants), talks)
        with self.journal.commit():
            self.journal.add_round(opened)
        self.aggregator.begin(number)
        self.tally.opened += 1
        self.devices = devices.all_asked(self.devices, participants, now)
        self.log.info("round opened", round=number, asked=len(opened.asked))
        return [self._announcement(opened), self.messages.state(self.run_state, self.rules)]

    @property
    def _is_assembling(self) -> bool:
        return self.assembly is not None and self.assembly.meeting is not None

    def _group_words(self) -> list[Publication]:
        """What is retained of a masked sum; a word that an earlier life left is taken back."""
        if self.assembly is None:
            return []
        return self.assembly.words() if self._is_assembling else [self.messages.no_group()]

    def _convene(self, number: int, reason: str, now: float) -> list[Publication]:
        """Instead of a cut: those who are ready are called to a masked sum."""
        assert self.assembly is not None  # a round is masked by its contract
        ready = self.aggregator.ready(self.journal.uploads(number, "accepted"))
        recipe, turn = self.terms.expected.recipe, self.aggregator.turn(number)
        agenda = of_round(number, reason, recipe, turn)
        failed = self.assembly.convene(agenda, ready, now + self.rules.timeout)
        if failed:
            self._close(CutRecord(number, reason, (), failed))
        return self.assembly.words()

    def _assemble(self, now: float) -> list[Publication]:
        """A masked sum goes on, and at its end its round does."""
        assembly = self.assembly
        if assembly is None or assembly.meeting is None:
            return []
        lost = devices.gone(self.devices, assembly.meeting.missing, now, self.terms.patience)
        publications = assembly.advance(lost, now + self.rules.timeout, now)
        meeting, number = assembly.meeting, assembly.number
        if meeting.step != "over":
            return publications
        if self.gathering is not None:
            return publications + self.gathering.conclude(now)
        survivors = () if meeting.failed else meeting.survivors
        counted = tuple((number, agent, 1) for agent in survivors)
        self._close(CutRecord(number, assembly.reason, counted, meeting.failed))
        publications += assembly.end()
        publications += self._fuse(number)
        return publications + self._advance([machine.Fused(self._eligible(now))], now)

    def _close(
        self,
        cut: CutRecord,
        left_out: Mapping[tuple[int, str], Refusal] = {},
        agreed: str = "",
        *,
        refold: bool = True,
    ) -> None:
        """Write a cut down: what comes later is not in it."""
        self._closing, self._refold = cut, refold
        opened = self._round(cut.round)
        noise = self._noise(cut.round) if opened.talks else None
        with self.journal.commit():
            outdated = cut.round + 1 - self.terms.staleness
            self.journal.add_cut(cut, left_out, outdated)
            if noise is not None:
                self.journal.add_noise(cut.round, noise)
            if agreed:
                self.journal.set_meta(AGREED, agreed)
            if opened.base_round and (accuracy := self.accuracy()):
                self.journal.add_event(
                    "measured", opened.base_round, accuracy=accuracy, std=self.spread()
                )
        self.tally.close(cut.reason)
        stale = sum(round != cut.round for round, _, _ in cut.counted)
        self.log.info(
            "round closed",
            round=cut.round,
            reason=cut.reason,
            uploads=len(cut.counted),
            stale=stale,
        )

    def _cut(self, number: int, reason: str, now: float) -> list[Publication]:
        if self.assembly is not None and self._round(number).talks:
            return self._convene(number, reason, now)
        accepted = self.journal.uploads(number, "accepted")
        current = [upload for upload in accepted if upload.cut is None]
        usable = self._usable(
            self.journal.uploads(None, "held"), {upload.agent for upload in current}, number
        )
        if self.crew is not None and self.aggregator.elsewhere:
            totals = self.crew.totals(self.aggregator.serial)
            if again := self.aggregator.gather(totals, current):
                self.log.info("folded again from the journal", round=number, uploads=again)
        # Held uploads enter the total only now: until here their devices might send newer ones.
        stale = [upload for upload in usable if self.aggregator.add_record(upload) is None]
        failed = ""
        try:
            left_out, agreed = self.aggregator.close(len(self._eligible(now)))
        except Exception as error:  # whatever joining what was let in comes to
            left_out, agreed, failed = {}, self.journal.meta(AGREED) or "", _in_words(error)
        # Bytes that a crash of the machine took from under a row that names them.
        lost = [u for u in current if u.agent not in self.aggregator.agents]
        left_out |= {(u.round, u.agent): Refusal(Reason.BAD_BYTES, "lost here") for u in lost}
        fused = [u for u in (*current, *stale) if (u.round, u.agent) not in left_out]
        weight = self.aggregator.weight
        counted = tuple((u.round, u.agent, weight(u.round)) for u in fused)
        self._close(CutRecord(number, reason, counted, failed), left_out, agreed, refold=False)
        publications: list[Publication] = []
        for upload in (*current, *stale):
            refusal = left_out.get((upload.round, upload.agent))
            if refusal is not None:
                publications += self.intake.refuse(
                    upload.agent, upload.round, upload.digest, refusal
                )
        return publications

    def _fuse(self, number: int) -> list[Publication]:
        if not self._round(number).talks:
            return []  # there is nothing in it: the state that is there goes on being the newest
        state, failed = self.state, ""
        try:
            with self.tally.fusing():
                state = self._outcome(number)
            publications = self._published(number, state)
        except JournalError:
            raise
        except Exception as error:  # whatever a recipe stumbles over in what was let in
            state, failed = self.state, _in_words(error)
        with self.journal.commit():
            if failed:
                self.journal.fail_cut(number, failed)
                self.journal.add_event("failed", number, words=failed)
            self.journal.add_state(number, state)
        self._closing = None
        self._stand_at(number, state)
        self.tally.failed += bool(failed)
        if failed:
            self.log.error(f"the round cannot be fused, its state stays: {failed}", round=number)
            publications = self._published(number, state)
        return publications

    def _outcome(self, number: int) -> GlobalState:
        """What comes of the cut; the total is made again where an earlier life closed it."""
        cut = self._closing
        assert cut is not None  # it was written before this was asked for
        if cut.failed:
            raise FusionError(cut.failed)
        total = self.aggregator.total_of(cut) if self._refold else self.aggregator.total
        turn = self.aggregator.turn(number)
        if self.terms.private is not None and self.assembly is None:
            total = noised(total, self.journal.noise(number))
        return fuse_total(self.terms.expected.recipe, turn, total, self.state)

    def _stand_at(self, round: int, state: GlobalState) -> None:
        """What the run has learnt by now."""
        self.base_round, self.state = round, state
        self._show(state)

    def _show(self, state: GlobalState) -> None:
        """Under a budget a fleet's extractor has what its rounds come to."""
        if self.terms.private is not None and self.terms.expected.recipe.traits.frozen:
            lineage, classes = self.catalogue.lineage, self.messages.contract.classes
            self.catalogue.learnt = display.learnt_of(lineage, classes, state.shared)

    # under a budget

    def _noise(self, number: int) -> Partial | None:
        """Drawn once for a cut, before anybody knows what is in it."""
        private = self.terms.private
        if private is None or self.assembly is not None:  # under masks each device adds its own
            return None
        return private.noise(self.aggregator.turn(number), self.state, self.terms.sampler)

    def _unclipped(self, number: int, parts: Parts) -> Refusal | None:
        """Why an upload for the open round may not be added."""
        private = self.terms.private
        assert private is not None  # it is asked under a budget alone
        try:
            words = private.unclipped(self.aggregator.turn(number), self.state, parts)
        except FusionError as error:
            return Refusal(error.code, error.words)
        return Refusal(Reason.BUDGET, words) if words else None

    @property
    def publications(self) -> int:
        """How many of those that a budget pays for there were: one a cut, whatever came of it."""
        private, state = self.terms.private, self.run_state
        if private is None:
            return 0
        over = state.number - (state.phase == "collecting")
        return private.publications(Turn(self.messages.contract, self.terms.hyper, over))

    def _published(self, number: int, state: GlobalState) -> list[Publication]:
        """A state for all, what is classified with by it, and each device's own part."""
        self._show(state)
        return [
            self.messages.train(number, state),
            *self.rollouts.staged(self.catalogue.publications(number, state)),
            *self._own_parts(number, state),
        ]

    def _put_off(self, number: int, missing: Sequence[str]) -> list[Publication]:
        names = [*missing[:NAMED], *([f"and {len(missing) - NAMED} more"] * (len(missing) > NAMED))]
        self.log.warning("deadline passed below the quorum", round=number, missing=",".join(names))
        with self.journal.commit():
            self.journal.add_event("put-off", number, missing=names)
        self.tally.put_off += 1
        return [self._announcement()]

    def _rest(self, number: int) -> list[Publication]:
        private = self.terms.private
        if private is not None and self.publications == private.accountant.publications:
            self.log.info("the budget is spent: the state stays, and no round opens any more")
        # Also after a round without exchange: devices are to hear that the run is done or paused.
        return [self._announcement(), self.messages.state(self.run_state, self.rules)]

    def _own_parts(self, number: int, state: GlobalState) -> list[Publication]:
        """For every device its own part of the state, where the method has such parts."""
        agents = sorted(self.devices) if state.own else []
        return [self.messages.own(agent, number, state) for agent in agents]

    def _announcement(self, opened: RoundRecord | None = None) -> Publication:
        if self.is_ledger or not self.run_state.number:
            # No round is open, or ever will be: what devices go by is all that is in it.
            opened = RoundRecord(0, GlobalState().base, 0, (), talks=False)
            return self.messages.round(opened, self.run_state, self.rules, None, False, 0)
        opened = opened or self._round(self.run_state.number)
        lots = self._lots(opened)
        if self.run_state.phase != "collecting":
            # There is nothing to train on, but a state to classify with.
            opened = replace(opened, base=self.state.base, base_round=self.base_round)
        return self.messages.round(
            opened,
            self.run_state,
            self.rules,
            lots,
            bool(self.state.own),
            self.terms.staleness,
        )

    def _lots(self, opened: RoundRecord) -> Lots | None:
        """The rule by which a round asks; None where everybody takes part."""
        if self.terms.everyone or self.rules.cut is not None:
            return None
        if self._drawn is None or self._drawn.round != opened.round:
            contract = self.terms.expected.contract
            self._drawn = lots_of(contract, opened.round, opened.asked)
        return self._drawn

    def _asks(self, opened: RoundRecord, agent: str) -> bool:
        """Whether a device may answer, as it knows itself: of those that came when the round was
        open already, too.
        """
        lots = self._lots(opened)
        return lots is None or lots.ask(agent)

    def _round(self, number: int) -> RoundRecord:
        opened = self.journal.round(number)
        assert opened is not None  # it was written before it was announced
        return opened

    def _counting_statuses(self) -> tuple[str, ...]:
        """Uploads of which status fill a round. Held ones do only where rounds are cuts: in a
        synchronous round nobody waits for them.
        """
        return (ACCEPTED,) if self.rules.cut is None else (ACCEPTED, HELD)

    def _held_agents(self, number: int) -> frozenset[str]:
        """Whose held uploads fill this round, before anyone answers it."""
        if self.rules.cut is None:
            return frozenset()
        uploads = self._usable(self.journal.uploads(None, "held"), set(), number)
        return frozenset(upload.agent for upload in uploads)

    def _usable(
        self, uploads: Sequence[UploadRecord], present: set[str], number: int
    ) -> list[UploadRecord]:
        """The newest upload of every agent that has none in this round, if it is not too old."""
        fresh = (u for u in uploads if number - u.round <= self.terms.staleness)
        newest = {upload.agent: upload for upload in fresh}
        return [newest[agent] for agent in sorted(newest) if agent not in present]

    def _tick(self, now: float) -> machine.Tick:
        if self.run_state.phase != "collecting":
            # With every turn: where no round could open, nobody is looked at.
            state, least = self.run_state, self.rules.min_agents
            may_open = not state.paused and len(self.devices) >= least
            return machine.Tick(self._eligible(now) if may_open else ())
        # Whoever could be asked matters only to the next round, and who is gone not at once.
        if now < self._look_at:
            return machine.Tick((), self.run_state.gone)
        self._look_at = now + LOOK
        state, patience = self.run_state, self.terms.patience
        owing = [a for a in state.asked if a not in state.answered and a not in state.excused]
        self.devices = devices.all_owing(self.devices, owing, now, patience)
        return machine.Tick((), devices.gone(self.devices, owing, now, patience))

    def _eligible(self, now: float) -> tuple[str, ...]:
        if self.is_ledger:
            return ()
        if self.terms.is_site and not self.round_above.may_open(self.run_state, self.state.base):
            return ()
        return devices.eligible(self.devices, now, self.terms.patience)


def deviation(numbers: Sequence[float]) -> float:
    """The standard deviation of all there are, in whatever order; the library's own takes forty
    times as long over thousands.
    """
    mean = fmean(numbers)
    return math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / len(numbers))


def ledger_terms(terms: Terms) -> LedgerTerms:
    """What a ledger goes by, whether the run is one or has one beside its rounds."""
    fleet = registry.load(LEDGER)
    hyper = terms.hyper if terms.expected.recipe.name == LEDGER else fleet.hyper()
    made_by = VersionTerms(
        terms.expected.contract.wire, fleet.precision, hyper.alarms, hyper.buckets
    )
    limits, devices = terms.expected.limits, terms.devices
    return LedgerTerms(terms.ledger, limits, devices, made_by, terms.expected.sites)


def _is_upload(topic: TopicParts) -> bool:
    """Round 0 is never opened: what is sent there are classes, for whatever is learnt."""
    return topic.kind == "upload" and topic.rest != ("0",)


def _in_words(error: Exception) -> str:
    """An error as a journal keeps it: of one line, and short whoever caused it."""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return words if len(words) <= LONGEST_WORDS else f"{words[:LONGEST_WORDS]} ..."
