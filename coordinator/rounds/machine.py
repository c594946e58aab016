"""A run's rounds as a table of (phase, event) -> (state, actions): pure, so that every order of
events can be tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from protofleet.wire.codes import CutReason

# Theory of operation
#
# A run is a row of rounds, one at a time, numbered from 1. This module decides when a round opens,
# whom it asks and when it closes; `coordinator.core` does what is decided and writes it down. The
# only writer of a `RunState` is `step`: the core feeds it events in the order in which they became
# true, performs the actions it gets back, and turns what comes of them into further events. No I/O
# and no clock here: time is an argument, and always the coordinator's own.
#
#   phase       event                    becomes     actions
#   ----------  -----------------------  ----------  ----------------------------------------------
#   any         Resumed, nothing open    waiting                  or done, after the last round
#   any         Resumed, a round open    collecting               with a new deadline
#   any         Resumed, a round cut     closing     Fuse
#   any         Paused                   the same                 no other opens; the open one ends
#   waiting     Tick                     collecting  Open         enough devices, no pause, in time
#                                        waiting                  else
#                                        done                     there is no further round
#   collecting  Counted                  collecting               with uploads of earlier rounds
#   collecting  Answered, Excused, Tick  closing     Cut, Fuse    complete, or deadline and quorum
#                                        collecting  PutOff       deadline below the quorum
#                                        collecting               else
#   closing     Fused                    collecting  Open         as `waiting` with a Tick
#                                        waiting     Rest         nothing opens now
#                                        done        Rest         it was the last round
#   any         any other                the same
#
# A synchronous round is complete when everyone who was asked has answered or is excused. It does
# not close at its quorum: that would shut slow devices out for good, as the fast ones would always
# make it alone. The quorum counts only at the deadline. Below it the deadline is put off and it is
# said who is missing; and who was excused is asked again by that, as a device that declined an hour
# ago may train by now. A round that nobody answered is never cut: there is nothing to fuse.
#
# Where sums are masked fewer than `RoundRules.least` answers come to nothing. If nobody is left to
# wait for at the deadline, such a round is cut all the same, and fails: a device that has told its
# sums to a group that is no more may not tell them to another, and would hold the run up for good.
#
# Devices that are gone (`Tick.gone`) are not waited for, and the quorum is a share of the others;
# one that is heard again is missing again.
#
# An asynchronous round is a cut of so many uploads (`RoundRules.cut`), whoever they are from, so
# nobody in particular is asked and nobody is missing. At its deadline whatever has come is enough.
#
# Traps:
# - Between Cut and Fused the phase is `closing`, and whatever else came in the same batch is
#   ignored: an answer to the round that was just cut must not count for the one that opens next.
#   So events that follow from actions are queued behind those that are there already.
# - `Answered` carries all agents of a batch. One event an agent would copy the set of those who
#   answered once for each: quadratic in the size of the fleet.
# - The quorum is a share of a float; 0.8 of 5 devices must be 4 and not 5, hence the 1e-9.
# - `Counted` never cuts. Uploads that were held for later may fill an asynchronous round before it
#   is announced; it is cut by the next Tick, so that one call of the core closes one such round and
#   the announcement goes out in between.
# - Rounds that were put off or are open when the process dies get a whole new deadline: how long it
#   was down says nothing about the devices.

Phase = Literal["waiting", "collecting", "closing", "done"]
ResumedPhase = Literal["waiting", "collecting", "closing"]
# Who takes part in a round, of those who could.
Choose = Callable[[int, Sequence[str]], Sequence[str]]


@dataclass(frozen=True)
class RoundRules:
    """When rounds open and close."""

    choose: Choose
    rounds: int | None = None
    min_agents: int = 1
    quorum: float = 0.8
    timeout: float = 300.0
    cut: int | None = None  # asynchronous: uploads a cut
    every: float = 0.0  # seconds from one round's opening to the next, at least
    least: int = 1  # answers below which a round is nothing: what a masked sum takes


@dataclass(frozen=True)
class RunState:
    """Where a run stands. `number` is the round that is open, or the last one that ended."""

    phase: Phase = "waiting"
    number: int = 0
    asked: tuple[str, ...] = ()
    answered: frozenset[str] = frozenset()
    excused: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    deadline: float = math.inf
    paused: bool = False
    opened: float = -math.inf

    @property
    def missing(self) -> list[str]:
        """Who was asked, is there, and has neither answered nor been excused."""
        return [
            agent
            for agent in self.asked
            if agent not in self.answered and agent not in self.excused and agent not in self.gone
        ]

    @property
    def is_complete(self) -> bool:
        """Whether nobody is missing; asked with every batch, and mostly answered by numbers."""
        accounted = len(self.answered) + len(self.excused) + len(self.gone)
        return accounted >= len(self.asked) and not self.missing


@dataclass(frozen=True)
class Resumed:
    """Where the journal says that the run stands, at the start and after writing failed: in a round
    that is open, in one that is cut and has no state yet, or between rounds.
    """

    number: int
    asked: tuple[str, ...]
    answered: frozenset[str]
    paused: bool
    phase: ResumedPhase


@dataclass(frozen=True)
class Tick:
    """Time passed, or devices came or went: `eligible` could be asked now (said while no round is
    open), and of those who were asked `gone` are not there.
    """

    eligible: tuple[str, ...]
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Counted:
    """Whose uploads of earlier rounds count in the one that has just been opened."""

    agents: frozenset[str]


@dataclass(frozen=True)
class Answered:
    """Uploads were accepted, of all these agents at once."""

    agents: frozenset[str]


@dataclass(frozen=True)
class Excused:
    """A device will not answer in this round: it left, or refused to train."""

    agent: str


@dataclass(frozen=True)
class Fused:
    """The round that was closing has its state; `eligible` could be asked in the next."""

    eligible: tuple[str, ...]


@dataclass(frozen=True)
class Paused:
    """An operator stops or lets go the opening of rounds; one that is open runs to its end."""

    paused: bool


@dataclass(frozen=True)
class Open:
    """Announce this round."""

    number: int
    asked: tuple[str, ...]


@dataclass(frozen=True)
class Cut:
    """Close this round: nothing that comes later is in it."""

    number: int
    reason: CutReason


@dataclass(frozen=True)
class Fuse:
    """Make the state of a round that is cut, and answer with `Fused`."""

    number: int


@dataclass(frozen=True)
class PutOff:
    """The deadline passed below the quorum."""

    number: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Rest:
    """This round is over and none follows it now."""

    number: int


Event = Resumed | Tick | Counted | Answered | Excused | Fused | Paused
Action = Open | Cut | Fuse | PutOff | Rest
Step = tuple[RunState, list[Action]]


def step(rules: RoundRules, state: RunState, event: Event, now: float) -> Step:
    """What the event changes, and what is to be done about it: the table above."""
    following: Step = state, []
    match state.phase, event:
        case _, Resumed():
            following = _resumed(rules, event, now)
        case _, Paused(paused):
            following = replace(state, paused=paused), []
        case "waiting", Tick(eligible):
            following = _maybe_open(rules, state, eligible, now)
        case "collecting", Counted(agents):
            following = replace(state, answered=state.answered | agents), []
        case "collecting", Answered() | Excused() | Tick():
            following = _maybe_cut(rules, _with_answers(state, event), now)
        case "closing", Fused(eligible):
            after, actions = _maybe_open(rules, _ended(rules, state), eligible, now)
            following = after, actions or [Rest(state.number)]
    return following


def _resumed(rules: RoundRules, event: Resumed, now: float) -> Step:
    # `opened` is not known any more, so `RoundRules.every` does not hold a restart up.
    state = RunState(event.phase, event.number, event.asked, event.answered, paused=event.paused)
    match event.phase:
        case "waiting":
            return _ended(rules, state), []
        case "collecting":
            return replace(state, deadline=now + rules.timeout), []
        case "closing":
            return state, [Fuse(event.number)]


def _ended(rules: RoundRules, state: RunState) -> RunState:
    over = rules.rounds is not None and state.number >= rules.rounds
    return replace(state, phase="done" if over else "waiting")


def _with_answers(state: RunState, event: Answered | Excused | Tick) -> RunState:
    match event:
        case Answered(agents):
            return replace(state, answered=state.answered | agents)
        case Excused(agent):
            return replace(state, excused=state.excused | {agent})
        case Tick(_, gone):
            return state if gone == state.gone else replace(state, gone=gone)


def _maybe_open(rules: RoundRules, state: RunState, eligible: tuple[str, ...], now: float) -> Step:
    number = state.number + 1
    if state.phase == "done" or (rules.rounds is not None and number > rules.rounds):
        return replace(state, phase="done"), []
    few, early = len(eligible) < max(rules.min_agents, 1), now < state.opened + rules.every
    if state.paused or few or early:
        return state, []
    chosen = () if rules.cut is not None else tuple(rules.choose(number, eligible))
    collecting = RunState("collecting", number, chosen, deadline=now + rules.timeout, opened=now)
    return collecting, [Open(number, chosen)]


def _maybe_cut(rules: RoundRules, state: RunState, now: float) -> Step:
    over = now >= state.deadline
    if rules.cut is not None:
        complete = len(state.answered) >= rules.cut
        enough = bool(state.answered)
    else:
        complete = state.is_complete and len(state.answered) >= rules.least
        absent = len(state.gone - state.answered)
        quorum = math.ceil(rules.quorum * (len(state.asked) - absent) - 1e-9)
        enough = len(state.answered) >= max(rules.least, quorum)
        # Too few for a masked sum, and nobody is left to wait for: it closes without one.
        enough = enough or (rules.least > 1 and not state.missing)
    if complete or (over and enough):
        closing = replace(state, phase="closing", deadline=math.inf)
        reason = CutReason.COMPLETE if complete else CutReason.DEADLINE
        return closing, [Cut(state.number, reason), Fuse(state.number)]
    if over:
        again = replace(state, deadline=now + rules.timeout, excused=frozenset())
        return again, [PutOff(state.number, tuple(state.missing))]
    return state, []
