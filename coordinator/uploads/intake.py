"""What becomes of an upload: let in for this round, held for a later one, late, or refused with a
reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coordinator.journal.journal import Journal
from coordinator.journal.records import ACCEPTED, HELD, LATE, RoundRecord, UploadRecord
from coordinator.journal.segments import Span
from coordinator.messages import Messages
from coordinator.rounds.machine import RunState
from coordinator.uploads import validation
from coordinator.uploads.aggregate import Aggregator
from coordinator.uploads.assembly import Assembly, letter_of
from coordinator.uploads.validation import Expected, Refusal
from protofleet import wire
from protofleet.errors import WireError
from protofleet.exchange import pooled
from protofleet.exchange.state import Upload
from protofleet.masking.group import Readiness
from protofleet.mqtt.link.events import Publication
from protofleet.util.logs import Log
from protofleet.values.prototypes import Parts, count_floats
from protofleet.wire import Message
from protofleet.wire.codes import Reason, UploadStatus

# Theory of operation
#
# An upload is looked at in the order of what it costs, and the first answer stands:
#
#   does it decode                     no: refused, without a digest
#   is the envelope of this run        no: refused
#     and of the topic's agent
#   is it of a masked sum, and does    no: refused. Yes: `Readiness` goes on like an upload of
#     the fleet mask                   nothing, any other letter to `assembly`
#   is this (agent, round) here        the same digest: the answer it had; another: conflict
#   is the round known, its base right no: refused
#   are its bytes those of another     yes: refused, where devices train
#     round of this device
#   are its parts of the fleet's sizes no: refused
#     and plausible
#   when did it come                   round open, and asked:     accepted, folded now
#                                      round open, not asked:     refused
#                                      late, within staleness:    held, folded at a later cut
#                                      late, beyond it:           late, only recorded
#   does it fold with the others       no: refused
#
# Of a device and a round the first upload that is written counts, whoever may repeat it: delivery
# is at least once, and devices send again until they have a receipt. A refused one is not written,
# so a device may try another.
#
# A body does not say what it is for: its envelope does, and who overheard one can put it into
# another. Training never gives the same bytes twice, so the bytes of a device's last rounds are
# remembered and taken for no other. Where nothing is trained the same samples give the same bytes,
# which is right; there an old body says what was true once, and nobody can tell.
#
# What passes is in the total but not yet on disk, and `fresh` holds it until the core's commit.
# It has no receipt until then. The same upload twice in one batch therefore gets one receipt, and
# not a `duplicate` for something that may yet fail to be written.
#
# An upload in the open round is looked up in `Aggregator.agents` instead of the journal: everything
# accepted for that round is in it, before the commit and after a restart. That spares the usual
# upload its only query.


REMEMBERED = 100  # refusals an operator can look at
STANDING = 1000  # devices whose last word was refused
LOGGED = 20  # refusals of one kind that get a line each
LONGEST_WORDS = 300  # of a refusal: a message may name what it likes
BODIES = 32  # of each device, by which an old one is known


class NewUpload(NamedTuple):
    """An upload that was let in and is about to be written; where an ingester wrote its bytes, they
    lie there.
    """

    round: int
    agent: str
    digest: str
    status: str
    body: bytes | Span

    @property
    def size(self) -> int:
        """Bytes."""
        return self.body.length if isinstance(self.body, Span) else len(self.body)


@dataclass
class Counters:
    """What an operator wants to see added up."""

    uploads: int = 0
    bytes: int = 0
    duplicates: int = 0
    late: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    last: list[dict[str, Any]] = field(default_factory=list)
    # Why, of devices that nothing was taken of since.
    newest: dict[str, str] = field(default_factory=dict)

    @property
    def refusals(self) -> int:
        """In all."""
        return sum(self.refused.values())


@dataclass
class Intake:
    """The door for uploads; what passes is in the open round's total and waits in `fresh` to be
    written.
    """

    journal: Journal
    expected: Expected
    aggregator: Aggregator
    messages: Messages
    log: Log
    staleness: int
    asks: Callable[[RoundRecord, str], bool]  # whether a round is this device's, too
    assembly: Assembly | None = None  # where sums are masked
    counters: Counters = field(default_factory=Counters)
    fresh: dict[tuple[int, str], NewUpload] = field(default_factory=dict)
    templates: wire.Templates = field(default_factory=wire.Templates)
    # why parts are not shortened as a budget wants them, for a round; none where there is no budget
    unclipped: Callable[[int, Parts], Refusal | None] | None = None
    _bodies: dict[str, dict[int, int]] = field(default_factory=dict)  # a device's, and their rounds

    def recover(self, round: int) -> None:
        """The bodies of the last rounds, from the journal."""
        self.fresh, self._bodies = {}, {}
        for upload in self.journal.uploads_since(round - BODIES):
            self._remember(upload)

    def read(self, payload: bytes) -> Message | WireError:
        """What a device sent, or why nobody can read it."""
        try:
            return wire.decode(payload, templates=self.templates)
        except WireError as error:
            return error

    def take(
        self, agent: str, round: int, payload: bytes, message: Message | WireError, state: RunState
    ) -> list[Publication]:
        """The answer, where there is one before the upload is written."""
        if isinstance(message, WireError):
            return self.refuse(agent, round, "", Refusal(message.code, message.words))
        digest = message.digest
        refusal = validation.identity(self.expected, message.envelope, agent, round)
        if refusal is not None:
            return self.refuse(agent, round, digest, refusal)
        if message.envelope.t == "letter":
            return self._letter(agent, round, message, payload, state)
        return self._take(agent, round, message, payload, state)

    def _letter(
        self, agent: str, round: int, message: Message, payload: bytes, state: RunState
    ) -> list[Publication]:
        """What a device says for a masked sum."""
        digest, assembly = message.digest, self.assembly
        letter = letter_of(agent, message)
        if assembly is None or isinstance(letter, Refusal):
            nobody = Refusal(Reason.NOT_NOW, "nobody asked for such a letter")
            refusal = letter if isinstance(letter, Refusal) else nobody
            return self.refuse(agent, round, digest, refusal)
        cut = self.journal.cut(round)
        if cut is not None:
            counted = not cut.failed and any(name == agent for _, name, _ in cut.counted)
            status = UploadStatus.DUPLICATE if counted else LATE
            return [self.messages.receipt(agent, round, digest, status)]
        if isinstance(letter, Readiness):
            return self._take(agent, round, message, payload, state)
        if assembly.meeting is None or assembly.number != round:
            refusal = Refusal(Reason.NOT_NOW, "its group is no more")
            return self.refuse(agent, round, digest, refusal)
        return assembly.take(agent, letter, message.body, digest)

    def _take(
        self, agent: str, round: int, message: Message, payload: bytes, state: RunState
    ) -> list[Publication]:
        digest = message.digest
        first = (
            state.phase == "collecting"
            and round == self.aggregator.number
            and agent not in self.aggregator.agents
        )
        if not first:
            earlier = self.fresh.get((round, agent)) or self.journal.upload(round, agent)
            if earlier is not None:
                return self._again(agent, round, digest, earlier)
        verdict = self._verdict(agent, round, message, state)
        if isinstance(verdict, Refusal):
            return self.refuse(agent, round, digest, verdict)
        # Of a late one the bytes are of no use: that it came is all that is kept.
        body = b"" if verdict == LATE else payload
        self.fresh[round, agent] = NewUpload(round, agent, digest, verdict, body)
        return []

    def take_written(
        self, agent: str, round: int, digest: str, span: Span, state: RunState
    ) -> bool:
        """Whether an upload that an ingester admitted, folded and wrote down is the first of its
        device in the open round. If it is anything else, it is to come as a message.
        """
        opened = self.journal.round(round)
        welcome = (
            state.phase == "collecting"
            and round == self.aggregator.number
            and not self.aggregator.has(agent)
            and opened is not None
            and self.asks(opened, agent)
            and self._bodies.get(agent, {}).get(_short(digest), round) == round
        )
        if welcome:
            self.aggregator.trust(agent)
            self.fresh[round, agent] = NewUpload(round, agent, digest, ACCEPTED, span)
        return welcome

    @property
    def has_news(self) -> bool:
        """Whether anything waits to be written."""
        return bool(self.fresh) or (self.assembly is not None and self.assembly.has_news)

    def write(self) -> None:
        """All that was let in since the last time; inside a commit."""
        self.journal.add_uploads(self.fresh.values())
        if self.assembly is not None:
            self.assembly.write()

    def noted(self) -> list[Publication]:
        """Receipts of letters, now that they are on disk."""
        return [] if self.assembly is None else self.assembly.written()

    def written(self) -> list[NewUpload]:
        """Everything that was let in since the last time, now that it is on disk."""
        uploads, counters = list(self.fresh.values()), self.counters
        self.fresh = {}
        late = sum(upload.status == LATE for upload in uploads)
        counters.late += late
        counters.uploads += len(uploads) - late
        counters.bytes += sum(upload.size for upload in uploads)
        for upload in uploads:
            counters.newest.pop(upload.agent, None)
            self._remember(upload)
        return uploads

    def _remember(self, upload: UploadRecord | NewUpload) -> None:
        bodies = self._bodies.get(upload.agent)
        if bodies is None:
            bodies = self._bodies[upload.agent] = {}
        bodies[_short(upload.digest)] = upload.round
        if len(bodies) > BODIES:
            del bodies[next(iter(bodies))]

    def status_of(self, upload: NewUpload) -> str:
        """What its receipt says. One that is held is accepted, too, as far as its device is
        concerned; one that is ready has still to send its sums.
        """
        if upload.status == LATE:
            return LATE
        return UploadStatus.NOTED.value if self._is_masked(upload.round) else ACCEPTED

    def _is_masked(self, round: int) -> bool:
        if self.assembly is None:
            return False
        opened = self.journal.round(round)
        return opened is not None and opened.talks

    def refuse(
        self,
        agent: str,
        round: int,
        digest: str,
        refusal: Refusal,
        status: str = UploadStatus.REFUSED,
    ) -> list[Publication]:
        """Count it, remember it, and say why."""
        code, words, counts = refusal.code, refusal.words[:LONGEST_WORDS], self.counters.refused
        counts[code] = counts.get(code, 0) + 1
        # A device that is set up wrongly sends one a round, and a fleet of them would fill the log.
        if counts[code] <= LOGGED:
            self.log.warning(f"refused: {words}", agent=agent, round=round, code=code)
        last = {"agent": agent, "round": round, "code": code, "words": words}
        self.counters.last = [*self.counters.last[1 - REMEMBERED :], last]
        newest = {**self.counters.newest, agent: words}
        if len(newest) > STANDING:
            del newest[next(iter(newest))]
        self.counters.newest = newest
        return [self.messages.receipt(agent, round, digest, status, code, words)]

    def _verdict(self, agent: str, round: int, message: Message, state: RunState) -> str | Refusal:
        opened = self.journal.round(round)
        if opened is None:
            return Refusal(Reason.UNKNOWN_ROUND, f"round {round} was not opened here")
        if message.envelope.base != opened.base:
            return Refusal(Reason.WRONG_BASE, f"built on another state than that of round {round}")
        ready = message.envelope.t == "letter"
        if self.assembly is not None and ready != opened.talks:
            words = "sums are masked here" if opened.talks else "nothing is added up in this round"
            return Refusal(Reason.MASKED, words)
        upload = Upload(agent, round, opened.base, {} if ready else message.body)
        refusal = None if ready else self._unwelcome(upload, message.digest, talks=opened.talks)
        if refusal is not None:
            return refusal
        status = self._status(agent, opened, state)
        if self.unclipped is not None and status == ACCEPTED and opened.talks:
            refusal = self.unclipped(round, message.body)
            if refusal is not None:
                return refusal
        if status == ACCEPTED:
            refusal = self.aggregator.add(upload)
        elif status == HELD:
            refusal = self.aggregator.unfit(upload)
        return refusal or status

    def _unwelcome(self, upload: Upload, digest: str, *, talks: bool) -> Refusal | None:
        """What is wrong with an upload's parts, if anything is."""
        if pooled.is_pooled(upload.parts) and upload.agent not in self.expected.sites:
            words = f"{upload.agent} is no site here: [admission] sites does not name it"
            return Refusal(Reason.NO_SITE, words)
        bodies = self._bodies.get(upload.agent)
        earlier = upload.round if bodies is None else bodies.get(_short(digest), upload.round)
        if earlier != upload.round and self._trains(upload.parts):
            return Refusal(Reason.OLD_BODY, f"the very bytes of round {earlier}")
        return validation.content(self.expected, upload.parts, talks)

    def _trains(self, parts: Parts) -> bool:
        """Whether such parts come of training, and so never twice."""
        contract = self.expected.contract
        still = self.expected.recipe.traits.frozen or contract.freeze or not contract.training.lr
        return not still and count_floats(parts) > 0

    def _status(self, agent: str, opened: RoundRecord, state: RunState) -> str | Refusal:
        if opened.round == state.number and state.phase == "collecting":
            if not self.asks(opened, agent):
                return Refusal(Reason.NOT_ASKED, f"{agent} was not asked in round {opened.round}")
            return ACCEPTED
        # Once a round is closed, the next one is the first that could take an upload in.
        stale = state.number - opened.round + (state.phase != "collecting")
        in_time = stale <= self.staleness and opened.talks
        return HELD if in_time else LATE

    def _again(
        self, agent: str, round: int, digest: str, earlier: UploadRecord | NewUpload
    ) -> list[Publication]:
        """The first one committed counts; the same bytes get the same answer."""
        if earlier.digest != digest:
            words = f"another upload for round {round} is here already"
            refusal = Refusal(Reason.CONFLICT, words)
            return self.refuse(agent, round, digest, refusal, UploadStatus.CONFLICT)
        self.counters.duplicates += 1
        if isinstance(earlier, NewUpload):
            return []  # its receipt comes with the first one's
        late = earlier.status == LATE
        status = LATE if late else UploadStatus.DUPLICATE
        if self.assembly is not None and not late and self._is_masked(round):
            status = UploadStatus.NOTED  # its group is still to come, or at it
        return [self.messages.receipt(agent, round, digest, status)]


def _short(digest: str) -> int:
    """As much of a hash as tells some bodies apart: what is meant to look alike is no old body."""
    return int(digest[:15], 16)
