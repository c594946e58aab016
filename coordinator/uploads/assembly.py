"""The masked sum of a round: from devices that are ready to a total, with the journal always ahead
of what is said.
"""

# Theory of operation
#
# In a round whose sums are masked nobody sends an upload. A device that has trained says
# `Readiness`, which is let in, journalled and counted like an upload without content; so when a
# round is closed is decided as ever. Then, instead of the cut, its group is called:
#
#   what happens                       in the journal                 said
#   the round closes                   the meeting: terms, shapes     Agreement, to all
#   a letter is let in                 the letter, with the batch     a receipt: noted
#   the meeting goes on                a mark                         the next word
#   it is over                         the cut, of the survivors      receipts: accepted, or late
#   the total is fused                 the state                      as ever
#
# So whoever was killed between two lines finds the one that was written last and says what follows
# it. The total is never kept: it is made of the minutes when it is fused, after a restart and in a
# replay, always by `total`.
#
# Devices' networks may differ in the shapes of their rows. Only equal ones add up: those of most
# devices do, and the others are told that they are late.
#
# A group that comes to nothing (too few devices left, shares that contradict each other) is a cut
# that failed, with the reason: the state stays, and the next round opens.

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator.journal.journal import Journal
from coordinator.journal.minutes import GroupRecord, Minute
from coordinator.messages import Messages
from coordinator.rounds import meeting as meetings
from coordinator.rounds.meeting import WENT_ON, Answer, HandOut, Meeting, SayToAll
from coordinator.uploads.validation import Refusal
from protofleet.contract import Contract
from protofleet.errors import FleetError, FusionError, WireError
from protofleet.masking.group import (
    SESSION,
    Agreement,
    Boxes,
    Convener,
    GroupFailed,
    MaskedSum,
    PublicKeys,
    Readiness,
    Reveal,
)
from protofleet.masking.layout import Layout, Shapes
from protofleet.masking.letters import decode_letter, encode_letter
from protofleet.masking.shares import Draw
from protofleet.mqtt.link.events import Publication
from protofleet.recipe import Recipe, Turn
from protofleet.util.logs import Log
from protofleet.values.sums import Partial
from protofleet.wire import Message
from protofleet.wire.codes import Reason, UploadStatus


@dataclass(frozen=True)
class Agenda:
    """What a group is called for: a round, or (0) a ledger; why just now; and the numbers that so
    many devices of these shapes send.
    """

    number: int
    reason: str
    purpose: str
    layout: Callable[[Shapes, int], Layout]


@dataclass
class Assembly:
    """The group of the round that is closing, if one is."""

    journal: Journal
    contract: Contract
    messages: Messages
    log: Log
    draw: Draw = os.urandom
    meeting: Meeting | None = None
    number: int = 0  # of its round
    reason: str = ""  # why the round was closed
    _fresh: list[tuple[Minute, str]] = field(default_factory=list)  # with digests of messages
    _last: dict[str, str] = field(default_factory=dict)  # digest of each device's newest letter

    def convene(self, agenda: Agenda, ready: Mapping[str, Readiness], deadline: float) -> str:
        """Call those who can be added up; in words why there is no group, if there is none."""
        masks, number = self.contract.masks, agenda.number
        assert masks is not None  # else nobody asks for a group
        ballots = Counter(repr(sorted(one.shapes.items())) for one in ready.values())
        most = max(sorted(ballots), key=ballots.__getitem__, default="")
        alike = {n: one for n, one in ready.items() if repr(sorted(one.shapes.items())) == most}
        if len(alike) < masks.least:
            return f"{len(alike)} devices for a masked sum, {masks.least} are due"
        shapes = alike[min(alike)].shapes
        try:
            layout = agenda.layout(shapes, len(alike))
            terms = masks.dropouts, layout.digest(), agenda.purpose
            agreement = Agreement(self.draw(SESSION), tuple(sorted(alike)), *terms)
        except FleetError as error:
            return error.words
        letter = encode_letter(agreement)
        record = GroupRecord(agreement.session, number, agenda.reason, letter, dict(shapes))
        with self.journal.commit():
            self.journal.minutes.put_group(record)
        self.meeting, self.number = Meeting(Convener(agreement), deadline), number
        self.reason, self._fresh, self._last = agenda.reason, [], {}
        left_out = sorted(ready.keys() - alike.keys())
        if left_out:
            self.log.warning(f"of other shapes than most: {', '.join(left_out)}", round=number)
        self.log.info("group called", round=number, devices=len(alike), octets=layout.octets)
        return ""

    def recover(self, number: int, deadline: float) -> bool:
        """Stand where the journal says; whether this round has a group."""
        return self.resume(self.journal.minutes.group(number), deadline)

    def resume(self, group: GroupRecord | None, deadline: float) -> bool:
        """Stand where the minutes of this group end, if there is one."""
        self.meeting, self._fresh, self._last = None, [], {}
        if group is not None:
            self.meeting = read_meeting(self.journal, group, deadline)
            self.number, self.reason = group.round, group.reason
        return group is not None

    def take(self, agent: str, letter: Answer, body: bytes, digest: str) -> list[Publication]:
        """A letter of the group that is open: answered when it is written, or at once."""
        assert self.meeting is not None  # the caller looked
        self._last[agent] = digest
        try:
            self.meeting = self.meeting.heard(letter)
        except GroupFailed:
            # Said before, or after its step: whatever it was, its device need not say it again.
            return [self._receipt(agent, digest, UploadStatus.NOTED)]
        minute = Minute(type(letter).__name__.lower(), agent, body)
        self._fresh.append((minute, digest))
        return []

    @property
    def session(self) -> str:
        """Of the group that is open, in hexadecimal; empty where none is."""
        return "" if self.meeting is None else self.meeting.agreement.session.hex()

    @property
    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._fresh)

    def write(self) -> None:
        """All that was let in since the last time; inside a commit."""
        if self.meeting is not None and self._fresh:
            minutes = [minute for minute, _ in self._fresh]
            self.journal.add_minutes(self.meeting.agreement.session, minutes)

    def written(self) -> list[Publication]:
        """Its receipts, now that it is on disk."""
        fresh, self._fresh = self._fresh, []
        status = UploadStatus.NOTED
        return [self._receipt(minute.agent, digest, status) for minute, digest in fresh]

    def advance(self, gone: frozenset[str], deadline: float, now: float) -> list[Publication]:
        """Go on as far as answers, losses and time allow."""
        publications: list[Publication] = []
        while self.meeting is not None and self.meeting.is_due(gone, now):
            missing, step = self.meeting.missing, self.meeting.step
            after = self.meeting.gone_on(deadline)
            with self.journal.commit():
                self.journal.add_minutes(after.agreement.session, [Minute(WENT_ON)])
            self.meeting = after
            if missing:
                names = ",".join(missing[:20])
                self.log.warning(f"lost at {step}", round=self.number, devices=names)
            publications += self.words()
        return publications

    def words(self) -> list[Publication]:
        """What the step that is open was begun with, retained."""
        said = None if self.meeting is None else self.meeting.said()
        match said:
            case SayToAll(letter):
                return [self.messages.group(self.number, letter)]
            case HandOut(parcels):
                return [
                    self.messages.box(agent, self.number, parcel)
                    for agent, parcel in parcels.items()
                ]
        return []

    def end(self) -> list[Publication]:
        """It is over, and in the journal: everybody hears how, and what was said is taken back."""
        assert self.meeting is not None  # the caller looked
        meeting, self.meeting = self.meeting, None
        counted = set() if meeting.failed else set(meeting.survivors)
        publications = [self.messages.no_group()]
        publications += [self.messages.no_box(agent) for agent in meeting.convener.present]
        for agent in meeting.agreement.devices:
            status = UploadStatus.ACCEPTED if agent in counted else UploadStatus.LATE
            digest = self._last.get(agent)
            publications += [] if digest is None else [self._receipt(agent, digest, status)]
        return publications

    def _receipt(self, agent: str, digest: str, status: UploadStatus) -> Publication:
        return self.messages.receipt(agent, self.number, digest, status.value)


def of_round(number: int, reason: str, recipe: Recipe[Any], turn: Turn[Any]) -> Agenda:
    """What a round's group is called for."""

    def layout(shapes: Shapes, devices: int) -> Layout:
        return recipe.layout(turn, shapes, devices)

    return Agenda(number, reason, f"round {number}", layout)


def letter_of(agent: str, message: Message) -> Readiness | Answer | Refusal:
    """The letter that a device may have sent, or why it is none."""
    try:
        letter = decode_letter(message.body)
    except WireError as error:
        return Refusal(error.code, error.words)
    if not isinstance(letter, Readiness | Boxes | PublicKeys | MaskedSum | Reveal):
        return Refusal(Reason.NOT_NOW, "devices do not say that")
    if letter.device != agent:
        return Refusal(Reason.WRONG_AGENT, "the letter is of another device")
    return letter


def read_meeting(journal: Journal, group: GroupRecord, deadline: float = 0.0) -> Meeting:
    """Where a group stood, by its minutes."""
    agreement, minutes = decode_letter(group.agreement), journal.minutes_of(group)
    if minutes is None or not isinstance(agreement, Agreement):
        raise FusionError(f"the minutes of round {group.round} are not here any more")
    letters = [None if one.kind == WENT_ON else decode_letter(one.body) for one in minutes]
    return meetings.resumed(agreement, letters, deadline)  # type: ignore[arg-type]


def total(journal: Journal, recipe: Recipe[Any], turn: Turn[Any]) -> Partial:
    """What the group of a round added up, from its minutes alone."""
    group = journal.minutes.group(turn.round)
    if group is None:
        raise FusionError(f"round {turn.round} has no group")
    meeting = read_meeting(journal, group)
    devices = len(meeting.agreement.devices)
    return meeting.convener.total(recipe.layout(turn, group.shapes, devices))
