"""A group of devices on its way through a masked sum: a table of (step, event) -> (state, actions),
pure, so that every order of answers and losses can be tried.
"""

# Theory of operation
#
# `protofleet.masking.group` says who may say what; this module says when the coordinator goes on.
# A meeting is of one session, and a session is of one round (or one version of a ledger): it ends
# in a total or in the words why there is none, and is never tried again. That is no want of
# patience: a device whose shares were revealed twice over the same numbers, with another set of
# devices each time, would be what the two totals differ by.
#
#   step     waits for            then says             or ends
#   keys     all who were asked   Roster, to all        fewer than n − t published keys
#   shares   all of the roster    Parcel, to each       fewer shared their secrets
#   masks    all with boxes       Survivors, to all     fewer sent masked sums
#   reveal   all survivors        nothing more: over    fewer revealed shares
#
# A step goes on when everybody has answered whom it waits for; when those who have not are gone and
# the others are enough; or at its deadline, with whoever has answered. Each step has the whole
# time. What arrives for a step that is over is not taken, and its device is told how the round
# ended.
#
# What is decided is written down before it is said (`coordinator.uploads.assembly`): the minutes of
# a meeting are its letters in their order, with a mark wherever it went on. `resumed` reads them
# and stands where the meeting stood; the next life of a coordinator says the same words again, as
# all of them follow from the letters.

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from protofleet.masking.group import (
    Agreement,
    Boxes,
    Convener,
    GroupFailed,
    MaskedSum,
    Parcel,
    PublicKeys,
    Reveal,
    Roster,
    Survivors,
)

MeetingStep = Literal["keys", "shares", "masks", "reveal", "over"]
Answer = PublicKeys | Boxes | MaskedSum | Reveal
WENT_ON = "went on"  # the mark in the minutes


@dataclass(frozen=True)
class SayToAll:
    """Everybody is to hear this."""

    letter: Agreement | Roster | Survivors


@dataclass(frozen=True)
class HandOut:
    """To each device its own."""

    parcels: Mapping[str, Parcel]


Motion = SayToAll | HandOut


@dataclass(frozen=True)
class Meeting:
    """Where a session stands; `failed` says why it is over without a total."""

    convener: Convener
    deadline: float
    step: MeetingStep = "keys"
    failed: str = ""

    @property
    def agreement(self) -> Agreement:
        """Who was asked, and on what terms."""
        return self.convener.agreement

    @property
    def missing(self) -> list[str]:
        """Whose answer to this step is not here."""
        convener = self.convener
        match self.step:
            case "keys":
                return sorted(set(self.agreement.devices) - convener.keys.keys())
            case "shares":
                assert convener.roster is not None  # this step is behind it
                return sorted(convener.roster.keys.keys() - convener.boxes.keys())
            case "masks":
                return sorted(set(convener.present) - convener.masked.keys())
            case "reveal":
                return sorted(set(self.survivors) - convener.reveals.keys())
            case "over":
                return []

    @property
    def survivors(self) -> tuple[str, ...]:
        """Whose sums are in the total, once that is decided."""
        there = self.convener.survivors
        return () if there is None else there.devices

    def heard(self, letter: Answer) -> Meeting:
        """With this answer; `GroupFailed` if it is none that is due."""
        return replace(self, convener=self.convener.take(letter))

    def said(self) -> Motion | None:
        """What the step that is open was begun with."""
        match self.step:
            case "keys":
                return SayToAll(self.agreement)
            case "shares":
                assert self.convener.roster is not None  # it was said to everybody
                return SayToAll(self.convener.roster)
            case "masks":
                return HandOut(self.convener.deliver()[1])
            case "reveal":
                assert self.convener.survivors is not None  # it was said to everybody
                return SayToAll(self.convener.survivors)
            case "over":
                return None

    def is_due(self, gone: frozenset[str], now: float) -> bool:
        """Whether the step is to end."""
        if self.step == "over":
            return False
        missing = set(self.missing)
        there = self._asked - len(missing)
        enough = there >= self.agreement.fewest
        return not missing or now >= self.deadline or (enough and missing <= gone)

    def gone_on(self, deadline: float) -> Meeting:
        """The next step, or the end: with a total to be had, or `failed`."""
        convener = self.convener
        try:
            match self.step:
                case "keys":
                    convener, _ = convener.call()
                    return Meeting(convener, deadline, "shares")
                case "shares":
                    convener, _ = convener.deliver()
                    return Meeting(convener, deadline, "masks")
                case "masks":
                    convener, _ = convener.close()
                    return Meeting(convener, deadline, "reveal")
                case "reveal":
                    convener.adjourn()
        except GroupFailed as error:
            return replace(self, step="over", failed=error.words)
        return replace(self, step="over")

    @property
    def _asked(self) -> int:
        """Of how many an answer to this step was to come."""
        convener = self.convener
        match self.step:
            case "shares":
                return len(convener.roster.keys) if convener.roster is not None else 0
            case "masks":
                return len(convener.present)
            case "reveal":
                return len(self.survivors)
        return len(self.agreement.devices)


def resumed(agreement: Agreement, minutes: Iterable[Answer | None], deadline: float) -> Meeting:
    """Where a meeting stands by its minutes: answers in their order, None where it went on."""
    meeting = Meeting(Convener(agreement), deadline)
    for letter in minutes:
        meeting = meeting.gone_on(deadline) if letter is None else meeting.heard(letter)
    return meeting
