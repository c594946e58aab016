"""A ledger whose contributions are masked: who has something to add, when a group is called for it,
and what comes of its total.
"""

# Theory of operation
#
# Under masks nobody sees a contribution, and a ledger has one entry: the total of the group that
# was called last (beside those of sites, whose devices are in groups there). Devices say that they
# are ready, with a mark that is another whenever what they would add has changed; nothing is added
# up until a group is called, and then all who are ready add anew, changed or not. Counts go the
# same way, against the total that is offered.
#
#   a group is called for    when
#   contributions            so many are ready as a group takes, and nobody was added up yet, or
#                            CHANGED of them have another mark than when they were
#   counts                   so many are ready that are in the total which is offered
#   either                   all devices that are there are ready (of counts: all in the total), or
#                            `patience` passed since the first that has news
#
# CHANGED is no economy. Two totals differ by what changed between them: had one device changed
# alone, the difference would be its own. So one or two wait for others.
#
# A group that comes to nothing changes nothing: the entry that is there stays, and after `patience`
# the next is called. Who was lost in a group that came to something is not in its total, is ready
# still, and has news.
#
# To forget a device is to forget the total that it is in, at once; a new group is called without
# it. Whoever kept the old total has its contribution by the difference, if nobody else changed.
#
# In the journal: what is ready and what was summed, as one document (GATHERING); the total in the
# ledger's own tables; and the minutes of the group that it is of, from which a replay makes it
# again.

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator.errors import JournalError
from coordinator.journal.journal import Journal
from coordinator.ledger.keeper import Forgotten, Keeper
from coordinator.uploads.assembly import Agenda, Assembly, letter_of, read_meeting
from coordinator.uploads.validation import Refusal
from protofleet import wire
from protofleet.contract import Contract
from protofleet.errors import FleetError, FusionError, WireError
from protofleet.exchange import gathered
from protofleet.exchange.gathered import GROUP, GroupClaim
from protofleet.masking.group import LEAST, Readiness
from protofleet.masking.layout import Layout, Shapes
from protofleet.mqtt.link.events import Publication
from protofleet.settings.fields import to_plain
from protofleet.statistics.contribution import MEANS
from protofleet.util.logs import Log
from protofleet.values.sums import Partial, Sum, digest
from protofleet.wire.codes import Reason, UploadStatus

GATHERING = "gathering"  # what the journal calls who is ready and what was summed
CHANGED = LEAST  # devices that must have something new

Refuse = Callable[[str, int, str, Refusal], list[Publication]]


@dataclass(frozen=True)
class ReadyBook:
    """Marks by device: of contributions that could be added, of those that were, and of the group
    that is open (its session in hexadecimal); and which total devices have counts against.
    """

    lineage: str = ""
    ready: dict[str, str] = field(default_factory=dict)
    summed: dict[str, str] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)
    session: str = ""
    counts: dict[str, str] = field(default_factory=dict)

    @property
    def news(self) -> set[str]:
        """Whose contribution is not in the total as it is now."""
        return {agent for agent, mark in self.ready.items() if self.summed.get(agent) != mark}


@dataclass
class Gathering:
    """Between devices and the ledger's keeper."""

    journal: Journal
    keeper: Keeper
    assembly: Assembly
    contract: Contract
    log: Log
    refuse: Refuse
    patience: float
    book: ReadyBook = field(default_factory=ReadyBook)
    _since: float | None = None  # the first news that no group was called for
    _next_at: float = 0.0

    def recover(self, now: float) -> None:
        """Stand where the journal says; another extractor begins anew."""
        document: dict[str, Any] = json.loads(self.journal.meta(GATHERING) or "{}")
        self.book, lineage = ReadyBook(**document), self.keeper.ledger.lineage
        if self.book.lineage != lineage:
            self.book = ReadyBook(lineage)
        session, self._since = bytes.fromhex(self.book.session), now
        group = self.journal.minutes.of_session(session) if session else None
        self.assembly.resume(group, now + self.patience)

    def take(self, agent: str, payload: bytes, now: float) -> list[Publication]:
        """A letter for the ledger."""
        try:
            message = wire.decode(payload)
        except WireError as error:
            return self.refuse(agent, 0, "", Refusal(error.code, error.words))
        envelope, messages = message.envelope, self.assembly.messages
        ours = (agent, self.contract.fleet, self.contract.run)
        letter = letter_of(agent, message)
        refusal: Refusal | None = letter if isinstance(letter, Refusal) else None
        if (envelope.agent, envelope.fleet, envelope.run) != ours:
            refusal = Refusal(Reason.WRONG_AGENT, "the sender is not who the topic says")
        elif isinstance(letter, Readiness):
            refusal = self._ready(letter, now)
        elif refusal is None and (self.assembly.meeting is None or self.assembly.number):
            refusal = Refusal(Reason.NOT_NOW, "its group is no more")
        if refusal is not None:
            return self.refuse(agent, 0, message.digest, refusal)
        if isinstance(letter, Readiness | Refusal):
            return [messages.receipt(agent, 0, message.digest, UploadStatus.NOTED.value)]
        return self.assembly.take(agent, letter, message.body, message.digest)

    def look(self, present: Sequence[str], now: float) -> list[Publication]:
        """Call a group, if one is due among the devices that are there."""
        if self.assembly.meeting is not None or now < self._next_at:
            return []
        due = self._contributions_due(present, now) or self._counts_due(present, now)
        if due is None:
            return []
        purpose, agents = due
        agenda = Agenda(0, purpose, purpose, lambda shapes, n: self._layout(purpose, shapes, n))
        ready = {agent: Readiness(agent, {}) for agent in agents}
        words = self.assembly.convene(agenda, ready, now + self.patience)
        if words:
            self.log.warning(f"no masked sum for the ledger: {words}")
            self._next_at = now + self.patience
            return []
        called = {agent: self.book.ready[agent] for agent in agents}
        self._since = None
        with self.journal.commit():
            self._write(replace(self.book, called=called, session=self.assembly.session))
        return self.assembly.words()

    def conclude(self, now: float) -> list[Publication]:
        """A group is over: its total takes the place of what was there."""
        meeting = self.assembly.meeting
        assert meeting is not None  # the caller looked
        failed, agreement = meeting.failed, meeting.agreement
        try:
            if not failed:
                layout = self._layout(agreement.purpose, {}, len(agreement.devices))
                total = meeting.convener.total(layout)
                self._enter(agreement.purpose, meeting.survivors, total, now)
        except JournalError:
            raise
        except FleetError as error:
            failed = error.words
        if failed:
            self.log.error(f"no masked sum for the ledger: {failed}")
            self._next_at, self._since = now + self.patience, now
            with self.journal.commit():
                self.journal.add_event("ungathered", words=failed[:300])
                self._write(replace(self.book, called={}, session=""))
        self.journal.drop_gathered(self._entered)
        return self.assembly.end()

    def forget(self, agent: str, now: float) -> Forgotten:
        """The total that a device is in is gone, and the next is of all others."""
        gone = self.keeper.forget(GROUP, now)
        self.assembly.meeting = None
        others = {name: mark for name, mark in self.book.ready.items() if name != agent}
        with self.journal.commit():
            self._write(ReadyBook(self.book.lineage, others))
        self.journal.drop_gathered()
        self.journal.wipe()
        self._since = now
        return replace(gone, agent=agent)

    @property
    def _entered(self) -> list[bytes]:
        """The sessions whose totals are in the ledger."""
        bodies = (*self.journal.ledger.bodies(), *self.journal.ledger.counted())
        groups = [gathered.read(body) for agent, body in bodies if agent == GROUP]
        return [bytes.fromhex(group.claim.session) for group in groups]

    def _ready(self, letter: Readiness, now: float) -> Refusal | None:
        book, offered = self.book, self.keeper.offered.total
        if letter.purpose == gathered.contributing(book.lineage) and book.lineage:
            fresh = replace(book, ready={**book.ready, letter.device: letter.mark[:64]})
        elif offered and letter.purpose == gathered.counting(offered):
            fresh = replace(book, counts={**book.counts, letter.device: offered})
        else:
            words = "another extractor, or another total than devices are asked to count against"
            return Refusal(Reason.WRONG_BASE, words)
        if fresh != book:
            self._since = now if self._since is None else self._since
            with self.journal.commit():
                self._write(fresh)
        return None

    def _contributions_due(
        self, present: Sequence[str], now: float
    ) -> tuple[str, list[str]] | None:
        book = self.book
        ready = sorted(set(present) & book.ready.keys())
        news = book.news & set(ready)
        enough = len(news) >= (CHANGED if book.summed else 1)
        if not enough or len(ready) < self._least or not self._complete(present, ready, now):
            return None
        return gathered.contributing(book.lineage), ready

    def _counts_due(self, present: Sequence[str], now: float) -> tuple[str, list[str]] | None:
        offered, summed = self.keeper.offered.total, self.book.summed
        tally = self.keeper.tally
        if not offered or (tally.total == offered and GROUP in tally.counts):
            return None
        ready = sorted(a for a in present if self.book.counts.get(a) == offered and a in summed)
        if len(ready) < self._least or not self._complete(sorted(summed), ready, now):
            return None
        return gathered.counting(offered), ready

    def _complete(self, awaited: Sequence[str], ready: Sequence[str], now: float) -> bool:
        late = self._since is not None and now - self._since >= self.patience
        return late or set(awaited) <= set(ready)

    def _enter(self, purpose: str, members: tuple[str, ...], total: Partial, now: float) -> None:
        book = self.book
        contributed = purpose == gathered.contributing(book.lineage)
        classes = self.contract.classes if contributed else ()
        claim = GroupClaim(purpose, book.session, members, classes)
        body = gathered.write(claim, total, self.contract.fleet, self.contract.run)
        group = gathered.read(body)
        if contributed:
            summed = {agent: book.called[agent] for agent in members}
            fresh = replace(book, summed=summed, called={}, session="")
            self.keeper.take_group(group, body, now, lambda: self._write(fresh))
        else:
            against = purpose.removeprefix(gathered.counting(""))
            fresh = replace(book, called={}, session="", counts={})
            self.keeper.take_counted(against, group, body, now, lambda: self._write(fresh))

    def _layout(self, purpose: str, shapes: Shapes, devices: int) -> Layout:
        return gathered.layout(purpose, self.contract, self.keeper.width, devices)

    @property
    def _least(self) -> int:
        masks = self.contract.masks
        return LEAST if masks is None else masks.least

    def _write(self, book: ReadyBook) -> None:
        self.journal.set_meta(GATHERING, json.dumps(to_plain(book)))
        self.book = book


def again(journal: Journal, contract: Contract, body: bytes) -> bool:
    """Whether the minutes of a group come to the total that is kept of it."""
    group = gathered.read(body)
    record = journal.minutes.of_session(bytes.fromhex(group.claim.session))
    if record is None:
        raise FusionError("the minutes of the ledger's group are not here any more")
    meeting = read_meeting(journal, record)
    means = group.partial.get(MEANS)
    width = means.low.shape[1] if isinstance(means, Sum) else 0
    devices = len(meeting.agreement.devices)
    layout = gathered.layout(group.claim.purpose, contract, width, devices)
    return digest(meeting.convener.total(layout)) == digest(group.partial)
