"""A process that takes uploads in for a coordinator: it reads, verifies, admits, folds and writes
them down, and says of each one row.
"""

# Theory of operation
#
# An ingester has what is costly of an upload and decides nothing. It is a consumer of the fleet's
# shared subscription: the broker deals uploads out among those that are there. One that is plainly
# welcome in the open round is folded into a total here, its bytes go to a segment of this process's
# own, and once they are on disk an `UploadRow` says so. Everything else (refused, late, large,
# repeated, of a ledger, of a masked sum, under a signature that does not hold) is handed on as it
# came, and is dealt with by the coordinator as if there were no ingesters. So there is one place
# for every answer that a device gets, and it is not here.
#
#   order          what is done
#   OpenRound      that round is open; its total begins with nothing
#   Taken          rows are in the journal: what they were folded into is added to the total. Rows
#                  that come back (somebody else has that upload, or the round is over) are folded
#                  without, and their messages handed on
#   Over           the broker may forget the messages of that batch
#   TotalsWanted   the total is said; whatever of the round is not in it the coordinator reads from
#                  the journal
#   Grant          a number that the next segment may have
#
# A batch is folded into a total of its own first: what the coordinator thinks of it is not known
# yet.
#
# kill -9. Before the row: the broker has no acknowledgement and hands the message to the next life,
# whose session is the same; bytes that no row points to are never read. After the row: the
# coordinator has it, and reads from the journal what this process had in its total.
#
# This process ends with the pipe, or with the coordinator.

from __future__ import annotations

import random
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from coordinator.errors import JournalError
from coordinator.ingestion.words import (
    ONE_NAME,
    Alive,
    Answer,
    Begun,
    Grant,
    IngestJob,
    Members,
    NoShares,
    OpenRound,
    Order,
    Over,
    RowBatch,
    Taken,
    Totals,
    TotalsWanted,
    UploadRow,
)
from coordinator.journal.segments import SegmentLog, Span
from coordinator.uploads import validation
from coordinator.uploads.folding import Folding, Group, add_group
from coordinator.uploads.shape_vote import ShapeVote
from coordinator.uploads.validation import Expected, Refusal
from protofleet import registry, wire
from protofleet.errors import FusionError, TrustError, WireError
from protofleet.exchange import pooled
from protofleet.exchange.state import Upload
from protofleet.mqtt.link import events as broker
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import Proof, Topics
from protofleet.settings.fields import from_plain
from protofleet.trust import keys, sealing
from protofleet.util.allocator import keep_freed_memory
from protofleet.util.processes import die_with_parent
from protofleet.values.prototypes import Parts

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

NAP = 1.0  # seconds between signs of life
NO_SHARES = "it knows no shared subscriptions"
GROUP = 512  # uploads that the broker hands out ahead of our acknowledgements
AHEAD = 1 << 19  # bytes that are decoded before the first of them is judged, as in the core
# Seconds for which the broker keeps the share of one that is gone. Its next life comes within a
# second; where there is none any more, its share must not wait for it.
SESSION = 60


def client_id(fleet: str, number: int) -> str:
    """The same in every life: so the broker hands the next one what the last one did not finish."""
    return f"{fleet}-ingester-{number}"


def link_of(job: IngestJob) -> Link:
    """To the broker, under a name and a session that outlive this process."""
    settings = LinkSettings(receive_maximum=GROUP, session_expiry=SESSION)
    return Link(job.address, client_id(job.fleet, job.number), settings, rng=random.Random())


class Read(NamedTuple):
    """An upload that may be let in. What is in it is decoded again should that be wanted: kept
    until the coordinator has spoken, a batch of them would be megabytes that no cache holds.
    """

    arrival: broker.Arrival
    agent: str
    digest: str
    payload: bytes  # without a signature
    proof: Proof | None = None
    number: int = 0
    lane: int = 0


@dataclass
class SaidBatch:
    """A batch that the coordinator has."""

    serial: int
    reads: Sequence[Read]
    groups: list[Group]
    arrivals: list[broker.Arrival] = field(default_factory=list)


class Ingester:
    """One life. `link` is given so that a test may have its own."""

    def __init__(self, job: IngestJob, pipe: Connection, link: Link | None = None) -> None:
        self._job, self._pipe, self._topics = job, pipe, Topics(job.fleet)
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._link = link or link_of(job)
        recipe = registry.load(job.method)
        self._expected = Expected(job.fleet, job.contract.run, recipe, job.contract, job.limits)
        self._folding = Folding(self._expected, from_plain(recipe.hyper, job.settings))
        self._segments = SegmentLog(job.folder, self._segment_number)
        self._granted: deque[int] = deque()
        self._templates = wire.Templates()
        self._keys: dict[str, dict[bytes, Ed25519PublicKey]] = {}
        self._members(job.members)
        self._standing = OpenRound(0, 0, "", 1, "")
        self._groups: list[Group] = []
        self._open: dict[int, SaidBatch] = {}
        self._back: list[broker.Arrival] = []  # to be handed on with the next batch
        self._batches = 0

    def run(self) -> None:
        """Until the pipe ends."""
        self._link.subscribe(self._topics.for_uploads(shared=True))
        self._link.start()
        threading.Thread(target=self._listen, name="orders", daemon=True).start()
        said = 0.0
        while True:
            # While the coordinator has a batch, what comes is gathered into the next one: each
            # waits for the disk, here and there.
            events = [] if self._open else self._link.poll(NAP)
            if not self._follow(NAP if self._open else 0.0):
                self._link.stop(patience=0.0)
                return
            self._look(events)
            arrivals = [event for event in events if isinstance(event, broker.Arrival)]
            if arrivals or (self._back and not self._open):
                self._take(arrivals)
            elif time.monotonic() - said >= NAP:
                said = time.monotonic()
                self._say(Alive(self._link.connected))

    def _look(self, events: list[broker.Event]) -> None:
        """Whether the broker deals anything out to this process."""
        for event in events:
            match event:
                case broker.Connected(_, _, shares):
                    self._say(Alive(connected=True) if shares else NoShares(NO_SHARES))
                case broker.Denied(_, reason):
                    self._say(NoShares(reason))
                case broker.Lost(reason) if broker.is_taken_over(reason):
                    self._say(NoShares(ONE_NAME))

    def _listen(self) -> None:
        while True:
            try:
                self._orders.put(self._pipe.recv())
            except (EOFError, OSError):
                self._orders.put(None)
                return
            finally:
                self._link.wake()

    def _say(self, answer: Answer) -> None:
        try:
            self._pipe.send(answer)
        except OSError:  # the coordinator is gone, which `_listen` hears, too
            return

    def _follow(self, patience: float = 0.0) -> bool:
        """All orders that came, the first of them awaited so long; whether there will be more."""
        while True:
            try:
                order = self._orders.get(block=patience > 0, timeout=patience)
            except Empty:
                return True
            patience = 0.0
            match order:
                case None:
                    return False
                case OpenRound():
                    self._standing, self._groups = order, []
                    self._folding.agreed = ShapeVote.read(order.agreed or None)
                case Members():
                    self._members(order)
                case Grant():
                    self._granted.append(order.segment)
                case Taken():
                    self._taken(self._open[order.batch], set(order.back))
                case Over():
                    self._link.ack(*self._open.pop(order.batch).arrivals)
                case TotalsWanted():
                    ours = order.serial == self._standing.serial
                    self._say(Totals(order.serial, tuple(self._groups) if ours else ()))

    def _members(self, members: Members | None) -> None:
        self._signed, self._everyone = members is not None, members is None or members.everyone
        if members is not None:
            named = {who: (keys.name(raw), keys.public(raw)) for who, raw in members.keys.items()}
            self._keys = {who: {name: key} for who, (name, key) in named.items()}

    def _segment_number(self) -> int:
        if not self._granted:
            raise JournalError("no number for a segment was granted yet")
        number = self._granted.popleft()
        self._say(Begun(number))
        return number

    # a batch

    def _take(self, arrivals: list[broker.Arrival]) -> None:
        """Fold what is welcome, write it down, and say so; hand on the rest."""
        others, self._back = self._back, []
        reads: list[Read] = []
        groups: list[Group] = []
        standing = self._standing
        for arrival, read, parts in self._read(arrivals):
            if read is None or self._fold(groups, read.agent, parts) is not None:
                others.append(arrival)
            else:
                reads.append(read)
        spans: list[Span] = []
        try:
            spans = self._segments.add([read.payload for read in reads])
        except JournalError:  # the coordinator's disk is the same: it says what is to be said
            others, reads, groups = [*others, *(read.arrival for read in reads)], [], []
        rows = tuple(
            UploadRow(r.agent, standing.round, r.digest, span, r.proof, r.number, r.lane)
            for r, span in zip(reads, spans, strict=True)
        )
        self._batches += 1
        every = [*(read.arrival for read in reads), *others]
        self._open[self._batches] = SaidBatch(standing.serial, reads, groups, every)
        handed = tuple((arrival.topic, arrival.payload) for arrival in others)
        self._say(RowBatch(self._batches, standing.serial, rows, handed))

    def _fold(self, groups: list[Group], agent: str, parts: Parts) -> Refusal | None:
        standing = self._standing
        upload = Upload(agent, standing.round, standing.base, parts)
        return self._folding.add(groups, upload, standing.weight)

    def _taken(self, batch: SaidBatch, back: set[int]) -> None:
        """What of a batch is in the journal is in the total now."""
        returned = [read for at, read in enumerate(batch.reads) if at in back]
        if returned:
            self._back += [read.arrival for read in returned]
            batch.arrivals = [
                arrival
                for arrival in batch.arrivals
                if not any(arrival is read.arrival for read in returned)
            ]
            batch.groups = []
            for at, read in enumerate(batch.reads):
                if at not in back and batch.serial == self._standing.serial:
                    self._fold(batch.groups, read.agent, wire.decode(read.payload).body)
        if batch.serial == self._standing.serial:
            for group in batch.groups:
                # What cannot be joined is left out: the coordinator finds it in the journal.
                with suppress(FusionError):
                    add_group(self._groups, group)

    def _read(
        self, arrivals: list[broker.Arrival]
    ) -> Iterator[tuple[broker.Arrival, Read | None, Parts]]:
        """Decoded some at a time, see `coordinator.core.AHEAD`."""
        read: list[tuple[broker.Arrival, Read | None, Parts]] = []
        size = 0
        for arrival in arrivals:
            read.append((arrival, *(self._welcome(arrival) or (None, {}))))
            size += len(arrival.payload)
            if size >= AHEAD:
                yield from read
                read, size = [], 0
        yield from read

    def _welcome(self, arrival: broker.Arrival) -> tuple[Read, Parts] | None:
        """An upload that is plainly one for the open round; None: somebody else is to judge it."""
        round, topic = self._standing.round, self._topics.parse(arrival.topic)
        due = round and topic is not None and topic.kind == "upload" and topic.rest == (str(round),)
        if not due or topic is None or topic.agent is None:
            return None
        try:
            sealed, payload = self._verified(topic.agent, arrival)
            message = wire.decode(payload, templates=self._templates)
        except (TrustError, WireError):
            return None
        if not self._admitted(topic.agent, message):
            return None
        read = Read(arrival, topic.agent, message.digest, payload)
        if sealed is not None:
            signature, proof = sealed
            read = read._replace(proof=proof, number=signature.number, lane=signature.lane)
        return read, message.body

    def _admitted(self, agent: str, message: wire.Message) -> bool:
        """As the coordinator's own intake would, of what can be said without its journal."""
        envelope, standing, expected = message.envelope, self._standing, self._expected
        return (
            envelope.t == "upload"
            and envelope.base == standing.base
            and validation.identity(expected, envelope, agent, standing.round) is None
            and not pooled.is_pooled(message.body)
            and validation.content(expected, message.body, talks=True) is None
        )

    def _verified(
        self, agent: str, arrival: broker.Arrival
    ) -> tuple[tuple[sealing.Sealed, Proof] | None, bytes]:
        """The message without its signature, which holds; its number is the coordinator's to look
        at. `TrustError` where there is any doubt.
        """
        payload = arrival.payload
        if not self._signed:
            return None, payload
        trusted = self._keys.get(agent, {})
        if not sealing.is_sealed(payload):
            if trusted or self._everyone:
                raise TrustError("not signed")
            return None, payload
        sealed = sealing.taken_apart(payload)
        key = trusted.get(sealed.key)
        if key is None:
            raise TrustError("not a key that is known here")
        return (sealed, sealing.check(sealed, key, arrival.topic)), sealed.message


def main() -> None:
    """`python -m coordinator.ingestion PIPE PARENT`."""
    pipe = Connection(int(sys.argv[1]))
    die_with_parent(int(sys.argv[2]))
    try:
        job = pipe.recv()
    except (EOFError, OSError):
        return
    assert isinstance(job, IngestJob)
    keep_freed_memory()  # a batch is megabytes, and the next one is as large
    Ingester(job, pipe).run()
