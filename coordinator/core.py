"""The coordinator without its network: messages in, messages out, and a journal that is always ahead of what is said.

`take` handles what arrived in one transaction and answers only what is on disk. Rounds open and close by the table in
`coordinator.rounds`; uploads are folded as they come, so that closing a round is only its fusion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator import admission, registry, rounds
from coordinator.admission import Expected, Refusal
from coordinator.fusion import fuse_total, start_state
from coordinator.journal import CutRound, Journal, Kept, OpenedRound
from coordinator.rounds import Rules, Standing
from coordinator.voice import Voice
from protofleet import wire
from protofleet.errors import FleetError, WireError
from protofleet.exact import Partial, merge
from protofleet.exchange import GlobalState, Upload
from protofleet.logs import Log
from protofleet.mqtt.events import Publication
from protofleet.mqtt.topics import Place, Topics
from protofleet.recipe import Turn
from protofleet.wire import Message

FRESH = 16  # weight of an upload without staleness, where staleness is allowed


@dataclass(frozen=True)
class Terms:
    """What the coordinator goes by, beside the rules of rounds."""

    expected: Expected
    hyper: Any
    staleness: int
    everyone: bool  # all devices take part, so one that joins in the middle may answer, too
    lost_after: float


@dataclass(frozen=True)
class Fresh:
    """An upload that was let in and is about to be written."""

    round: int
    agent: str
    digest: str
    status: str
    body: bytes


@dataclass
class Counters:
    """What an operator wants to see added up."""

    uploads: int = 0
    bytes: int = 0
    duplicates: int = 0
    late: int = 0
    refused: dict[str, int] = field(default_factory=dict)


class Core:
    """One run of one fleet."""

    def __init__(self, journal: Journal, rules: Rules, terms: Terms, topics: Topics, voice: Voice, log: Log) -> None:
        self.journal, self.rules, self.terms, self.topics, self.voice, self.log = (
            journal, rules, terms, topics, voice, log,
        )  # fmt: skip
        self.devices: registry.Devices = {}
        self.counters = Counters()
        self.refusals: list[dict[str, Any]] = []
        self.standing = Standing()
        self.base_round, self.state = 0, GlobalState()
        self._total: Partial = {}
        self._contributed: set[str] = set()

    # from the journal

    def recover(self, now: float) -> list[Publication]:
        """Stand where the journal says; close what was cut before it could be fused."""
        found = self.journal.state()
        if found is None:
            state = start_state(self.terms.expected.recipe, self._turn(0))
            with self.journal.commit():
                self.journal.add_state(0, state)
            found = (0, state)
        self.base_round, self.state = found
        self._total, self._contributed = {}, set()
        opened = self.journal.rounds(last=1)
        if not opened:
            self.standing = Standing(paused=self._paused)
            return self._tick(now)
        last = opened[0]
        cut = self.journal.cut(last.round)
        answered = [k for k in self.journal.uploads(last.round, "accepted")] + self.journal.uploads(None, "held")
        self.standing = Standing(
            "collecting", last.round, last.asked, frozenset(k.agent for k in answered), frozenset(),
            now + self.rules.timeout, self._paused,
        )  # fmt: skip
        if cut is None:
            for kept in answered:
                if kept.status == "accepted":
                    self._add(self._upload(kept), self._weight(kept.round))
            return self._advance(rounds.Tick(self._eligible(now)), now)
        self.standing = replace(self.standing, phase="closing")
        if last.talks and self.base_round < last.round:
            self._total = self._folded(cut)
            return self._fuse(last, now)
        return self._advance(rounds.Fused(), now) + self._tick(now)

    # what happens

    def greetings(self) -> list[Publication]:
        """Everything retained, said on every connection: brokers forget."""
        said = [self.voice.state(self.standing, self.rules), self.voice.train(self.base_round, self.state)]
        said += [self.voice.own(a, self.base_round, self.state) for a in sorted(self.devices) if self.state.own]
        return [*said, self._announcement()] if self.standing.number else said

    def take(self, arrivals: Iterable[tuple[str, bytes]], now: float) -> list[Publication]:
        """Deal with what arrived; the answers are true once this returns."""
        said: list[Publication] = []
        fresh: dict[tuple[int, str], Fresh] = {}
        births: dict[str, dict[str, Any]] = {}
        events: list[rounds.Event] = []
        for topic, payload in arrivals:
            place = self.topics.parse(topic)
            if place is None or place.agent is None:
                continue
            if place.kind == "upload":
                said += self._upload_came(place, payload, fresh)
            elif place.kind == "state" and payload:
                events += self._birth_came(place.agent, payload, births, now, said)
            elif place.kind == "evt":
                events += self._report_came(place.agent, payload, now)
        if fresh or births:
            with self.journal.commit():
                for each in fresh.values():
                    self.journal.add_upload(each.round, each.agent, each.digest, each.status, each.body)
                for agent, birth in births.items():
                    self.journal.add_agent(agent, birth)
        for each in fresh.values():
            self.counters.uploads += each.status != "late"
            self.counters.bytes += len(each.body)
            self.devices = registry.heard(self.devices, each.agent, now)
            said.append(self.voice.receipt(each.agent, each.round, each.digest, "late" if each.status == "late" else "accepted"))
            if each.status != "late":
                events.append(rounds.Answered(each.agent))
        for event in events:
            said += self._advance(event, now)
        return said

    def tick(self, now: float) -> list[Publication]:
        """Let deadlines pass and rounds open."""
        return self._tick(now)

    def pause(self, paused: bool, now: float) -> list[Publication]:
        """Stop or let go the opening of rounds."""
        with self.journal.commit():
            self.journal.set_meta("paused", "yes" if paused else "no")
            self.journal.add_event("paused" if paused else "resumed", self.standing.number)
        said = self._advance(rounds.Paused(paused), now)
        return [*said, *self._tick(now), self.voice.state(self.standing, self.rules)]

    def accuracy(self) -> dict[str, float]:
        """Means over the devices that reported on the newest state."""
        told = [d.accuracy for d in self.devices.values() if d.accuracy and d.round == self.base_round]
        names = sorted({name for each in told for name in each})
        return {n: sum(a[n] for a in told if n in a) / sum(n in a for a in told) for n in names}

    # messages

    def _upload_came(self, place: Place, payload: bytes, fresh: dict[tuple[int, str], Fresh]) -> list[Publication]:
        agent, round = str(place.agent), int(place.rest[0])
        try:
            message = wire.decode(payload)
        except WireError as error:
            return self._refuse(agent, round, "", Refusal(error.code, error.words))
        if message.envelope.t != "upload":
            return self._refuse(agent, round, message.digest, Refusal("wrong-type", f"a {message.envelope.t} on the topic of uploads"))
        wrong = admission.identity(self.terms.expected, message.envelope, agent, round)
        if wrong is not None:
            return self._refuse(agent, round, message.digest, wrong)
        known = fresh.get((round, agent)) or self.journal.upload(round, agent)
        if known is not None:
            return self._again(agent, round, message.digest, known)
        opened = self.journal.round(round)
        if opened is None:
            return self._refuse(agent, round, message.digest, Refusal("unknown-round", f"round {round} was not opened here"))
        if message.envelope.base != opened.base:
            return self._refuse(agent, round, message.digest, Refusal("wrong-base", f"built on another state than round {round}'s"))
        wrong = admission.content(self.terms.expected, message.body, opened.talks)
        status = self._status(agent, opened)
        if wrong is None and status == "refused":
            wrong = Refusal("not-asked", f"{agent} was not asked in round {round}")
        if wrong is None and status == "accepted":
            wrong = self._add(Upload(agent, round, opened.base, message.body), self._weight(round))
        if wrong is not None:
            return self._refuse(agent, round, message.digest, wrong)
        fresh[round, agent] = Fresh(round, agent, message.digest, status, b"" if status == "late" else payload)
        self.counters.late += status == "late"
        return []

    def _status(self, agent: str, opened: OpenedRound) -> str:
        """What an upload is good for: this round, a later one, or the record only."""
        at = self.standing
        if opened.round == at.number and at.phase == "collecting":
            asked = self.rules.cut is not None or self.terms.everyone or agent in at.asked
            return "accepted" if asked and agent not in self._contributed else "refused" if not asked else "held"
        stale = at.number - opened.round + (at.phase != "collecting")
        return "held" if 0 < stale <= self.terms.staleness and opened.talks else "late"

    def _again(self, agent: str, round: int, digest: str, known: Kept | Fresh) -> list[Publication]:
        """The first one committed counts; the same bytes get the same answer."""
        if known.digest != digest:
            return self._refuse(agent, round, digest, Refusal("conflict", f"another upload for round {round} is here"), "conflict")
        self.counters.duplicates += 1
        if isinstance(known, Fresh):
            return []  # its receipt comes with the first one's
        return [self.voice.receipt(agent, round, digest, "late" if known.status == "late" else "duplicate")]

    def _birth_came(
        self, agent: str, payload: bytes, births: dict[str, dict[str, Any]], now: float, said: list[Publication]
    ) -> list[rounds.Event]:
        message = self._control(agent, payload, "birth")
        if message is None:
            return []
        versions = message.body.get("wire", [wire.VERSION])
        if wire.VERSION not in (versions if isinstance(versions, list) else []):
            self._refuse(agent, 0, message.digest, Refusal("wire-version", f"it speaks {versions}, here it is {wire.VERSION}"))
            return []
        self.devices = registry.born(self.devices, agent, message.envelope.boot or "", message.body, now)
        device = self.devices.get(agent)
        if device is None:
            return []
        if device.online:
            births[agent] = dict(device.about)
            if self.state.own:
                said.append(self.voice.own(agent, self.base_round, self.state))
        tick = rounds.Tick(self._eligible(now))
        return [rounds.Excused(agent), tick] if device.left else [tick]

    def _report_came(self, agent: str, payload: bytes, now: float) -> list[rounds.Event]:
        message = self._control(agent, payload, "report")
        if message is None:
            return []
        accuracy, reason = message.body.get("accuracy"), message.body.get("refused")
        changes: dict[str, Any] = {"declines": str(reason) if reason else ""}
        if isinstance(accuracy, dict):
            numbers = {str(k): float(v) for k, v in accuracy.items() if isinstance(v, (int, float))}
            changes |= {"accuracy": numbers, "round": message.envelope.round}
        self.devices = registry.heard(self.devices, agent, now, **changes)
        if reason and message.envelope.round == self.standing.number:
            self.log.info("will not train", agent=agent, round=message.envelope.round, reason=reason)
            return [rounds.Excused(agent)]
        return []

    def _control(self, agent: str, payload: bytes, kind: str) -> Message | None:
        try:
            message = wire.decode(payload)
        except WireError as error:
            self._refuse(agent, 0, "", Refusal(error.code, error.words))
            return None
        fits = message.envelope.t == kind and message.envelope.agent == agent and message.envelope.fleet == self.topics.fleet
        return message if fits else None

    def _refuse(self, agent: str, round: int, digest: str, why: Refusal, status: str = "refused") -> list[Publication]:
        self.counters.refused[why.code] = self.counters.refused.get(why.code, 0) + 1
        known = self.devices.get(agent)
        if known is not None:
            self.devices = {**self.devices, agent: replace(known, refused=known.refused + 1)}
        if len(self.refusals) == 0 or self.counters.refused[why.code] <= 20:
            self.log.warning("refused", agent=agent, round=round, code=why.code, words=why.words)
        self.refusals = [*self.refusals[-99:], {"agent": agent, "round": round, "code": why.code, "words": why.words}]
        return [self.voice.receipt(agent, round, digest, status, why.code, why.words)]

    # rounds

    def _tick(self, now: float) -> list[Publication]:
        return self._advance(rounds.Tick(self._eligible(now)), now)

    def _advance(self, event: rounds.Event, now: float) -> list[Publication]:
        said: list[Publication] = []
        self.standing, actions = rounds.step(self.rules, self.standing, event, now)
        for action in actions:
            match action:
                case rounds.Open(number, asked):
                    said += self._open(number, asked)
                case rounds.Cut(number, reason):
                    said += self._cut(number, reason, now)
                case rounds.PutOff(number, missing):
                    self.log.warning("deadline passed below the quorum", round=number, missing=",".join(missing))
                    with self.journal.commit():
                        self.journal.add_event("put-off", number, missing=list(missing))
                    said.append(self._announcement())
        return said

    def _open(self, number: int, asked: Sequence[str]) -> list[Publication]:
        talks = self.terms.expected.recipe.talks(self._turn(number))
        opened = OpenedRound(number, self.state.base, self.base_round, tuple(asked), talks)
        with self.journal.commit():
            self.journal.add_round(opened)
        self._total, self._contributed = {}, set()
        held = self.journal.uploads(None, "held")
        self.standing = replace(self.standing, answered=frozenset(k.agent for k in held) if self.rules.cut else frozenset())
        self.log.info("round opened", round=number, asked=len(asked))
        return [self._announcement(opened), self.voice.state(self.standing, self.rules)]

    def _cut(self, number: int, reason: str, now: float) -> list[Publication]:
        opened = self.journal.round(number)
        assert opened is not None  # it was written before it was announced
        current = [k for k in self.journal.uploads(number, "accepted") if k.cut is None]
        stale = self._usable([k for k in self.journal.uploads(None, "held")], {k.agent for k in current}, number)
        cut = CutRound(number, reason, tuple((k.round, k.agent, self._weight(k.round)) for k in [*current, *stale]))
        with self.journal.commit():
            self.journal.add_cut(cut)
        for kept in stale:
            self._add(self._upload(kept), self._weight(kept.round))
        self.log.info("round closed", round=number, reason=reason, uploads=len(cut.counted), stale=len(stale))
        if not opened.talks:
            return [*self._advance(rounds.Fused(), now), *self._tick(now)]
        return self._fuse(opened, now)

    def _usable(self, held: Sequence[Kept], present: set[str], number: int) -> list[Kept]:
        """The newest held upload of every agent that has none in this round, if it is not too old."""
        newest = {kept.agent: kept for kept in held if number - kept.round <= self.terms.staleness}
        return [newest[agent] for agent in sorted(newest) if agent not in present]

    def _fuse(self, opened: OpenedRound, now: float) -> list[Publication]:
        recipe = self.terms.expected.recipe
        state = fuse_total(recipe, self._turn(opened.round), self._total, self.state)
        with self.journal.commit():
            self.journal.add_state(opened.round, state)
        self.base_round, self.state, self._total = opened.round, state, {}
        said = [self.voice.train(opened.round, state)]
        if state.own:
            said += [self.voice.own(agent, opened.round, state) for agent in sorted(self.devices)]
        said += self._advance(rounds.Fused(), now)
        if self.standing.phase != "collecting":
            said += self._tick(now)
        if self.standing.phase != "collecting":
            said += [self._announcement(), self.voice.state(self.standing, self.rules)]
        return said

    def _announcement(self, opened: OpenedRound | None = None) -> Publication:
        opened = opened or self.journal.round(self.standing.number)
        assert opened is not None  # there is no announcement before the first round
        everyone = self.terms.everyone or self.rules.cut is not None
        return self.voice.round(opened, self.standing, self.rules, everyone, bool(self.state.own), self.terms.staleness)

    # small things

    def _turn(self, round: int) -> Turn[Any]:
        return Turn(self.terms.expected.contract, self.terms.hyper, round)

    def _weight(self, round: int) -> int:
        """Whole weights that fall with the root of staleness; one for all where staleness is not allowed."""
        if not self.terms.staleness:
            return 1
        return max(1, int(FRESH / (1 + max(0, self.standing.number - round)) ** 0.5 + 0.5))

    def _add(self, upload: Upload, weight: int) -> Refusal | None:
        """Fold an upload into the total, if it fits what is there."""
        if not upload.parts:
            self._contributed.add(upload.agent)
            return None
        try:
            self._total = merge(self._total, self.terms.expected.recipe.fold(self._turn(upload.round), upload, weight))
        except (FleetError, ValueError, KeyError) as error:
            return Refusal(getattr(error, "code", "bad-fusion"), " ".join(str(error).split()))
        self._contributed.add(upload.agent)
        return None

    def _folded(self, cut: CutRound) -> Partial:
        total: Partial = {}
        for round, agent, weight in cut.counted:
            kept = self.journal.upload(round, agent)
            if kept is not None:
                total = merge(total, self.terms.expected.recipe.fold(self._turn(round), self._upload(kept), weight))
        return total

    def _upload(self, kept: Kept) -> Upload:
        message = wire.decode(self.journal.body(kept.digest) or b"")
        return Upload(kept.agent, kept.round, str(message.envelope.base), message.body)

    def _eligible(self, now: float) -> tuple[str, ...]:
        return registry.eligible(self.devices, now, self.terms.lost_after)

    @property
    def _paused(self) -> bool:
        return self.journal.meta("paused") == "yes"
