"""What becomes of an upload: let in for this round, held for a later one, late, or refused with a
reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coordinator.journal.journal import Journal
from coordinator.journal.records import RoundRecord, UploadRecord
from coordinator.messages import Messages
from coordinator.rounds.machine import RunState
from coordinator.uploads import validation
from coordinator.uploads.aggregate import Aggregator
from coordinator.uploads.validation import Expected, Refusal
from protofleet import wire
from protofleet.errors import WireError
from protofleet.exchange.state import Upload
from protofleet.mqtt.link.events import Publication
from protofleet.util.logs import Log
from protofleet.wire import Message

REMEMBERED = 100  # refusals an operator can look at
LOGGED = 20  # refusals of one kind that get a line each


class NewUpload(NamedTuple):
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
    last: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Intake:
    """The door for uploads; what passes is in the running fusion and waits in `fresh` to be
    written.
    """

    journal: Journal
    expected: Expected
    running: Aggregator
    voice: Messages
    log: Log
    staleness: int
    anyone: bool  # who was not asked may answer, too
    counters: Counters = field(default_factory=Counters)
    fresh: dict[tuple[int, str], NewUpload] = field(default_factory=dict)
    templates: wire.Templates = field(default_factory=wire.Templates)

    def take(self, agent: str, round: int, payload: bytes, at: RunState) -> list[Publication]:
        """The answer, where there is one before the upload is written."""
        try:
            message = wire.decode(payload, templates=self.templates)
        except WireError as error:
            return self.refuse(agent, round, "", Refusal(error.code, error.words))
        digest = message.digest
        wrong = validation.identity(self.expected, message.envelope, agent, round)
        if wrong is not None:
            return self.refuse(agent, round, digest, wrong)
        # Of the open round, all that is in the journal is in the running fusion, too.
        first = (
            at.phase == "collecting"
            and round == self.running.number
            and agent not in self.running.agents
        )
        known = (
            None if first else self.fresh.get((round, agent)) or self.journal.upload(round, agent)
        )
        if known is not None:
            return self._again(agent, round, digest, known)
        verdict = self._verdict(agent, round, message, at)
        if isinstance(verdict, Refusal):
            return self.refuse(agent, round, digest, verdict)
        self.fresh[round, agent] = NewUpload(
            round, agent, digest, verdict, b"" if verdict == "late" else payload
        )
        return []

    def written(self) -> list[NewUpload]:
        """Everything that was let in since the last time, now that it is on disk."""
        done = list(self.fresh.values())
        self.fresh = {}
        for each in done:
            self.counters.late += each.status == "late"
            self.counters.uploads += each.status != "late"
            self.counters.bytes += len(each.body)
        return done

    def refuse(
        self, agent: str, round: int, digest: str, why: Refusal, status: str = "refused"
    ) -> list[Publication]:
        """Count it, remember it, and say why."""
        count = self.counters.refused[why.code] = self.counters.refused.get(why.code, 0) + 1
        if count <= LOGGED:
            self.log.warning(f"refused: {why.words}", agent=agent, round=round, code=why.code)
        last = {"agent": agent, "round": round, "code": why.code, "words": why.words}
        self.counters.last = [*self.counters.last[1 - REMEMBERED :], last]
        return [self.voice.receipt(agent, round, digest, status, why.code, why.words)]

    def _verdict(self, agent: str, round: int, message: Message, at: RunState) -> str | Refusal:
        opened = self.journal.round(round)
        if opened is None:
            return Refusal("unknown-round", f"round {round} was not opened here")
        if message.envelope.base != opened.base:
            return Refusal("wrong-base", f"built on another state than that of round {round}")
        wrong = validation.content(self.expected, message.body, opened.talks)
        if wrong is not None:
            return wrong
        status = self._status(agent, opened, at)
        upload = Upload(agent, round, opened.base, message.body)
        if status == "accepted":
            wrong = self.running.add(upload)
        elif status == "held":
            wrong = self.running.unfit(upload)
        return wrong or status

    def _status(self, agent: str, opened: RoundRecord, at: RunState) -> str | Refusal:
        if opened.round == at.number and at.phase == "collecting":
            if not self.anyone and agent not in at.asked:
                return Refusal("not-asked", f"{agent} was not asked in round {opened.round}")
            return "held" if agent in self.running.agents else "accepted"
        stale = at.number - opened.round + (at.phase != "collecting")
        return "held" if stale <= self.staleness and opened.talks else "late"

    def _again(
        self, agent: str, round: int, digest: str, known: UploadRecord | NewUpload
    ) -> list[Publication]:
        """The first one committed counts; the same bytes get the same answer."""
        if known.digest != digest:
            words = f"another upload for round {round} is here already"
            return self.refuse(agent, round, digest, Refusal("conflict", words), "conflict")
        self.counters.duplicates += 1
        if isinstance(known, NewUpload):
            return []  # its receipt comes with the first one's
        return [
            self.voice.receipt(
                agent, round, digest, "late" if known.status == "late" else "duplicate"
            )
        ]
