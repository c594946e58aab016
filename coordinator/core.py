"""The coordinator without its network: messages in, messages out, and a journal that is always
ahead of what is said.

`take` handles what arrived in one transaction and answers only what is on disk. Rounds open and
close by the table in `coordinator.rounds.machine`; uploads are folded as they come, so that closing
a round is only its fusion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any

from coordinator import devices
from coordinator.journal.journal import Journal
from coordinator.journal.records import CutRecord, RoundRecord, UploadRecord
from coordinator.ledger.catalogue import Catalogue
from coordinator.messages import Messages
from coordinator.rounds import machine
from coordinator.rounds.machine import RoundRules, RunState
from coordinator.uploads.aggregate import AGREED, Aggregator
from coordinator.uploads.fuse import fuse_total, start_state
from coordinator.uploads.intake import Intake
from coordinator.uploads.validation import Expected, Refusal
from protofleet import wire
from protofleet.errors import WireError
from protofleet.exchange.state import GlobalState
from protofleet.mqtt.link.events import Publication
from protofleet.mqtt.topics import TopicParts, Topics
from protofleet.util.logs import Log
from protofleet.wire import Message


@dataclass(frozen=True)
class Terms:
    """What the coordinator goes by, beside the rules of rounds."""

    expected: Expected
    hyper: Any
    staleness: int
    everyone: bool  # all devices take part, so one that joins in the middle may answer, too
    lost_after: float
    enrol: str = "auto"


class Core:
    """One run of one fleet."""

    def __init__(
        self,
        journal: Journal,
        rules: RoundRules,
        terms: Terms,
        topics: Topics,
        voice: Messages,
        log: Log,
    ) -> None:
        self.journal, self.rules, self.terms = journal, rules, terms
        self.topics, self.voice, self.log = topics, voice, log
        self.running = Aggregator(journal, terms.expected, terms.hyper, terms.staleness)
        anyone = terms.everyone or rules.cut is not None
        self.intake = Intake(
            journal, terms.expected, self.running, voice, log, terms.staleness, anyone
        )
        self.classes = Catalogue(journal, voice, terms.enrol, log)
        self.devices: devices.Devices = {}
        self.standing = RunState()
        self.base_round, self.state = 0, GlobalState()

    # from the journal

    def recover(self, now: float) -> list[Publication]:
        """Stand where the journal says; close what was cut before it could be fused."""
        found = self.journal.state()
        if found is None:
            state = start_state(self.terms.expected.recipe, self.running.turn(0))
            with self.journal.commit():
                self.journal.add_state(0, state)
            found = (0, state)
        self.base_round, self.state = found
        self.intake.fresh = {}
        # Known devices count as just lost until they speak, so that a restart does not change who
        # is asked.
        self.devices = devices.known(self.journal.agents(), now) | dict(self.devices)
        opened = self.journal.rounds(last=1)
        if not opened:
            self.standing = RunState(paused=self._paused)
            return self._tick(now)
        last = opened[0]
        cut = self.journal.cut(last.round)
        accepted = self.journal.uploads(last.round, "accepted")
        answered = frozenset(kept.agent for kept in accepted) | self._held_count(last.round)
        self.standing = RunState(
            "collecting",
            last.round,
            last.asked,
            answered,
            frozenset(),
            now + self.rules.timeout,
            self._paused,
        )
        if cut is None:
            self.running.begin(last.round, accepted)
            return self._advance(machine.Tick(self._eligible(now)), now)
        self.standing = replace(self.standing, phase="closing")
        if last.talks and self.base_round < last.round:
            self.running.total = self.running.of_cut(cut)
            return self._fuse(last, now)
        return self._advance(machine.Fused(), now) + self._tick(now)

    # what happens

    def greetings(self) -> list[Publication]:
        """Everything retained, said on every connection: brokers forget."""
        said = [
            self.voice.state(self.standing, self.rules),
            self.voice.train(self.base_round, self.state),
        ]
        said += [
            self.voice.own(a, self.base_round, self.state)
            for a in sorted(self.devices)
            if self.state.own
        ]
        said += self.classes.publications(self.base_round, self.state)
        return [*said, self._announcement()] if self.standing.number else said

    def take(self, arrivals: Iterable[tuple[TopicParts, bytes]], now: float) -> list[Publication]:
        """Deal with what arrived; the answers are true once this returns."""
        said: list[Publication] = []
        births: dict[str, dict[str, Any]] = {}
        events: list[machine.Event] = []
        for place, payload in arrivals:
            if place.agent is None:
                continue
            if place.kind == "upload" and place.rest == (
                "0",
            ):  # of no round: classes enrolled there
                said += self.classes.offered(place.agent, payload, self.base_round, self.state)
            elif place.kind == "upload":
                said += self.intake.take(place.agent, int(place.rest[0]), payload, self.standing)
            elif place.kind == "state" and payload:
                events += self._birth_came(place.agent, payload, births, now, said)
            elif place.kind == "report":
                events += self._report_came(place.agent, payload, now)
        if self.intake.fresh or births:
            with self.journal.commit():
                self.journal.add_uploads(self.intake.fresh.values())
                for agent, birth in births.items():
                    self.journal.add_agent(agent, birth)
        written = self.intake.written()
        self.devices = devices.all_heard(self.devices, [each.agent for each in written], now)
        for each in written:
            status = "late" if each.status == "late" else "accepted"
            said.append(self.voice.receipt(each.agent, each.round, each.digest, status))
        counts = ("accepted",) if self.rules.cut is None else ("accepted", "held")
        answered = frozenset(each.agent for each in written if each.status in counts)
        events += [machine.Answered(answered)] if answered else []
        for event in events:
            said += self._advance(event, now)
        return said + self._tick(now)

    def tick(self, now: float) -> list[Publication]:
        """Let deadlines pass and rounds open."""
        return self._tick(now)

    def pause(self, paused: bool, now: float) -> list[Publication]:
        """Stop or let go the opening of rounds."""
        with self.journal.commit():
            self.journal.set_meta("paused", "yes" if paused else "no")
            self.journal.add_event("paused" if paused else "resumed", self.standing.number)
        said = self._advance(machine.Paused(paused), now)
        return [*said, *self._tick(now), self.voice.state(self.standing, self.rules)]

    def accuracy(self) -> dict[str, float]:
        """Means over the devices that reported on the newest state."""
        names = sorted({name for each in self._told() for name in each})
        return {name: fmean([a[name] for a in self._told() if name in a]) for name in names}

    def spread(self) -> dict[str, float]:
        """Standard deviations beside `accuracy`."""
        return {
            name: pstdev([a[name] for a in self._told() if name in a]) for name in self.accuracy()
        }

    def _told(self) -> list[Mapping[str, float]]:
        return [
            d.accuracy for d in self.devices.values() if d.accuracy and d.round == self.base_round
        ]

    # messages

    def _birth_came(
        self,
        agent: str,
        payload: bytes,
        births: dict[str, dict[str, Any]],
        now: float,
        said: list[Publication],
    ) -> list[machine.Event]:
        message = self._control(agent, payload, "birth")
        if message is None:
            return []
        versions = message.body.get("wire", [wire.VERSION])
        if wire.VERSION not in (versions if isinstance(versions, list) else []):
            words = f"it speaks wire versions {versions}, here it is {wire.VERSION}"
            said += self.intake.refuse(agent, 0, message.digest, Refusal("wire-version", words))
            return []
        self.devices = devices.born(
            self.devices, agent, message.envelope.boot or "", message.body, now
        )
        device = self.devices.get(agent)
        if device is None:
            return []
        if device.online or device.left:
            births[agent] = {**device.about, "left": device.left}
        if device.online and self.state.own:
            said.append(self.voice.own(agent, self.base_round, self.state))
        return [machine.Excused(agent)] if device.left else []

    def _report_came(self, agent: str, payload: bytes, now: float) -> list[machine.Event]:
        message = self._control(agent, payload, "report")
        if message is None:
            return []
        accuracy, reason = message.body.get("accuracy"), message.body.get("refused")
        changes: dict[str, Any] = {"declines": str(reason) if reason else ""}
        if isinstance(accuracy, dict):
            numbers = {str(k): float(v) for k, v in accuracy.items() if isinstance(v, (int, float))}
            changes |= {"accuracy": numbers, "round": message.envelope.round}
        self.devices = devices.heard(self.devices, agent, now, **changes)
        if reason and message.envelope.round == self.standing.number:
            self.log.info(
                "will not train", agent=agent, round=message.envelope.round, reason=reason
            )
            return [machine.Excused(agent)]
        return []

    def _control(self, agent: str, payload: bytes, kind: str) -> Message | None:
        try:
            message = wire.decode(payload)
        except WireError as error:
            self.intake.refuse(agent, 0, "", Refusal(error.code, error.words))
            return None
        envelope = message.envelope
        fits = (envelope.t, envelope.agent, envelope.fleet) == (kind, agent, self.topics.fleet)
        return message if fits else None

    # rounds

    def _tick(self, now: float) -> list[Publication]:
        return self._advance(machine.Tick(self._eligible(now)), now)

    def _advance(self, event: machine.Event, now: float) -> list[Publication]:
        said: list[Publication] = []
        self.standing, actions = machine.step(self.rules, self.standing, event, now)
        for action in actions:
            match action:
                case machine.Open(number, asked):
                    said += self._open(number, asked)
                case machine.Cut(number, reason):
                    said += self._cut(number, reason, now)
                case machine.PutOff(number, missing):
                    self.log.warning(
                        "deadline passed below the quorum", round=number, missing=",".join(missing)
                    )
                    with self.journal.commit():
                        self.journal.add_event("put-off", number, missing=list(missing))
                    said.append(self._announcement())
        return said

    def _open(self, number: int, asked: Sequence[str]) -> list[Publication]:
        talks = self.terms.expected.recipe.talks(self.running.turn(number))
        opened = RoundRecord(number, self.state.base, self.base_round, tuple(asked), talks)
        with self.journal.commit():
            self.journal.add_round(opened)
        self.running.begin(number)
        self.standing = replace(self.standing, answered=self._held_count(number))
        self.log.info("round opened", round=number, asked=len(asked))
        return [self._announcement(opened), self.voice.state(self.standing, self.rules)]

    def _cut(self, number: int, reason: str, now: float) -> list[Publication]:
        opened = self.journal.round(number)
        assert opened is not None  # it was written before it was announced
        current = [k for k in self.journal.uploads(number, "accepted") if k.cut is None]
        usable = self._usable(
            self.journal.uploads(None, "held"), {k.agent for k in current}, number
        )
        stale = [kept for kept in usable if self.running.add(self.running.upload(kept)) is None]
        out, agreed = self.running.close(len(self._eligible(now)))
        fits = [kept for kept in [*current, *stale] if (kept.round, kept.agent) not in out]
        cut = CutRecord(
            number, reason, tuple((k.round, k.agent, self.running.weight(k.round)) for k in fits)
        )
        with self.journal.commit():
            self.journal.add_cut(cut, out)
            self.journal.set_meta(AGREED, agreed)
            if opened.base_round and self.accuracy():
                self.journal.add_event(
                    "measured", opened.base_round, accuracy=self.accuracy(), std=self.spread()
                )
        self.log.info(
            "round closed",
            round=number,
            reason=reason,
            uploads=len(fits),
            stale=len({*stale} & {*fits}),
        )
        said: list[Publication] = []
        for kept in [*current, *stale]:
            why = out.get((kept.round, kept.agent))
            said += (
                [] if why is None else self.intake.refuse(kept.agent, kept.round, kept.digest, why)
            )
        if not opened.talks:
            return [*said, *self._advance(machine.Fused(), now), *self._tick(now)]
        return [*said, *self._fuse(opened, now)]

    def _usable(
        self, held: Sequence[UploadRecord], present: set[str], number: int
    ) -> list[UploadRecord]:
        """The newest held upload of every agent that has none in this round, if it is not too
        old.
        """
        newest = {kept.agent: kept for kept in held if number - kept.round <= self.terms.staleness}
        return [newest[agent] for agent in sorted(newest) if agent not in present]

    def _fuse(self, opened: RoundRecord, now: float) -> list[Publication]:
        recipe = self.terms.expected.recipe
        state = fuse_total(recipe, self.running.turn(opened.round), self.running.total, self.state)
        with self.journal.commit():
            self.journal.add_state(opened.round, state)
        self.base_round, self.state = opened.round, state
        said = [
            self.voice.train(opened.round, state),
            *self.classes.publications(opened.round, state),
        ]
        if state.own:
            said += [self.voice.own(agent, opened.round, state) for agent in sorted(self.devices)]
        said += self._advance(machine.Fused(), now)
        if self.standing.phase != "collecting":
            said += self._tick(now)
        if self.standing.phase != "collecting":
            said += [self._announcement(), self.voice.state(self.standing, self.rules)]
        return said

    def _announcement(self, opened: RoundRecord | None = None) -> Publication:
        opened = opened or self.journal.round(self.standing.number)
        assert opened is not None  # there is no announcement before the first round
        if self.standing.phase != "collecting":  # nothing to train on, but a state to classify with
            opened = replace(opened, base=self.state.base, base_round=self.base_round)
        everyone = self.terms.everyone or self.rules.cut is not None
        return self.voice.round(
            opened, self.standing, self.rules, everyone, bool(self.state.own), self.terms.staleness
        )

    def _held_count(self, number: int) -> frozenset[str]:
        """Whose held uploads count toward a cut; in synchronous rounds they are waited for by
        nobody.
        """
        held = self.journal.uploads(None, "held") if self.rules.cut else []
        return frozenset(kept.agent for kept in self._usable(held, set(), number))

    def _eligible(self, now: float) -> tuple[str, ...]:
        return devices.eligible(self.devices, now, self.terms.lost_after)

    @property
    def _paused(self) -> bool:
        return self.journal.meta("paused") == "yes"
