"""A run's rounds as a table of (phase, event) -> (standing, actions): pure, so that every order of
events can be tried.

waiting --enough devices--> collecting --all answered, or deadline and quorum--> closing --fused-->
waiting ... done

A round does not close at its quorum, which would shut slow devices out for good, but when everyone
who was asked has answered or is excused, or at its deadline if the quorum is met; else the deadline
is put off and it is said who is missing. In asynchronous mode a round is a cut of so many uploads,
and nobody in particular is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Phase = Literal["waiting", "collecting", "closing", "done"]
Choose = Callable[
    [int, Sequence[str]], Sequence[str]
]  # who takes part in a round, of those who could


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


@dataclass(frozen=True)
class RunState:
    """Where a run stands. `number` is the round that is open, or the last one that ended."""

    phase: Phase = "waiting"
    number: int = 0
    asked: tuple[str, ...] = ()
    answered: frozenset[str] = frozenset()
    excused: frozenset[str] = frozenset()
    deadline: float = math.inf
    paused: bool = False
    opened: float = -math.inf

    @property
    def missing(self) -> list[str]:
        """Who was asked and has neither answered nor been excused."""
        return [
            agent
            for agent in self.asked
            if agent not in self.answered and agent not in self.excused
        ]


@dataclass(frozen=True)
class Tick:
    """Time passed, or devices came or went; `eligible` could be asked now."""

    eligible: tuple[str, ...]


@dataclass(frozen=True)
class Answered:
    """Uploads were accepted: of all agents that came at once, as telling of each alone would cost
    by their square.
    """

    agents: frozenset[str]


@dataclass(frozen=True)
class Excused:
    """A device will not answer in this round: it left, or refused to train."""

    agent: str


@dataclass(frozen=True)
class Fused:
    """The round that was closing has its state."""


@dataclass(frozen=True)
class Paused:
    """An operator stops or lets go the opening of rounds; one that is open runs to its end."""

    paused: bool


@dataclass(frozen=True)
class Ended:
    """An operator ends the run; an open round is given up."""


@dataclass(frozen=True)
class Open:
    """Announce this round."""

    number: int
    asked: tuple[str, ...]


@dataclass(frozen=True)
class Cut:
    """Close this round: nothing that comes later is in it."""

    number: int
    reason: str


@dataclass(frozen=True)
class PutOff:
    """The deadline passed below the quorum."""

    number: int
    missing: tuple[str, ...]


Event = Tick | Answered | Excused | Fused | Paused | Ended
Action = Open | Cut | PutOff
Step = tuple[RunState, list[Action]]


def step(rules: RoundRules, at: RunState, event: Event, now: float) -> Step:  # noqa: PLR0911 - a table
    """What the event changes, and what is to be done about it."""
    match at.phase, event:
        case _, Paused(paused):
            return replace(at, paused=paused), []
        case _, Ended():
            return replace(at, phase="done", deadline=math.inf), []
        case "waiting", Tick(eligible):
            return _maybe_open(rules, at, eligible, now)
        case "collecting", Tick():
            return _maybe_cut(rules, at, now)
        case "collecting", Answered(agents):
            return _maybe_cut(rules, replace(at, answered=at.answered | agents), now)
        case "collecting", Excused(agent):
            return _maybe_cut(rules, replace(at, excused=at.excused | {agent}), now)
        case "closing", Fused():
            over = rules.rounds is not None and at.number >= rules.rounds
            return replace(at, phase="done" if over else "waiting"), []
    return at, []


def _maybe_open(rules: RoundRules, at: RunState, eligible: tuple[str, ...], now: float) -> Step:
    number = at.number + 1
    if rules.rounds is not None and number > rules.rounds:
        return replace(at, phase="done"), []
    if at.paused or len(eligible) < max(rules.min_agents, 1) or now < at.opened + rules.every:
        return at, []
    asked = () if rules.cut is not None else tuple(rules.choose(number, eligible))
    collecting = RunState("collecting", number, asked, deadline=now + rules.timeout, opened=now)
    return collecting, [Open(number, asked)]


def _maybe_cut(rules: RoundRules, at: RunState, now: float) -> Step:
    if rules.cut is not None:
        full = len(at.answered) >= rules.cut
        late = now >= at.deadline and bool(at.answered)
    else:
        full = not at.missing and bool(at.answered)
        late = now >= at.deadline and len(at.answered) >= max(
            1, math.ceil(rules.quorum * len(at.asked) - 1e-9)
        )
    if full or late:
        closing = replace(at, phase="closing", deadline=math.inf)
        return closing, [Cut(at.number, "complete" if full else "deadline")]
    if now >= at.deadline:
        again = replace(at, deadline=now + rules.timeout, excused=frozenset())
        return again, [PutOff(at.number, tuple(at.missing))]
    return at, []
