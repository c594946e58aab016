"""A rollout's groups as a table of (phase, event) -> (state, actions): pure, so that every order of
events can be tried.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from protofleet.exchange.rollouts import PlanPhase, RolloutReport, TrialFigures, place
from protofleet.exchange.signs import is_worse
from protofleet.wire.codes import Setback

# Theory of operation
#
# A fleet is divided into groups by a number that each device draws (it is in
# `protofleet.exchange.rollouts`): group 0 are canaries and numbers below the first share, group 1
# those below the second, and so on to the last, whose share is 1. A group is open or not, and
# groups open one after the other. This module decides when the next one does, and when all is taken
# back; `coordinator.rollouts.steering` does what is decided and writes it down. No I/O and no
# clock: time is an argument.
#
#   phase    event                    becomes   actions
#   -------  -----------------------  --------  -------------------------------------------------
#   open     Reports, Presence        back      GoBack       too many failed, or accuracy fell
#                                     halted    Stall        nobody of the group is there
#                                     open      OpenGroup    enough of the newest group proved it
#                                     done      Conclude     the same of the last one
#                                     open                   else
#   open     Halt                     halted                 no device begins; who runs it goes on
#   halted   Reports, Presence        back      GoBack       as above: what runs may still fall sick
#                                     halted                 else
#   halted   Resume                   open                   its patience begins anew
#   open, halted, done
#            Return                   back      GoBack       by hand
#   back     any                      back                   reports say who is still on it
#   done     any other                done                   late devices report, and change nothing
#
# What a device is, as far as a group is concerned:
#
#   waiting   there, and has not reported yet
#   busy      trying or running
#   proven    proven
#   failed    refused it, or has been busy for longer than `patience` (overdue)
#   silent    was busy, and is not there any more
#   absent    not there and never began, or there and without a word for longer than `patience` (it
#             may be of a release that knows no rollouts)
#
#   errors    (failed + silent) of all but the absent, over the groups that are open. Silence after
#             it began may be the bundle's doing, so it is no success and counts here.
#   trigger   proven of all but the absent and silent, in the newest group alone. A silent device
#             hangs nobody: it is not waited for, and errors say when there are too many.
#
# A device comes and goes between these: one that was silent and proves it is proven. One that comes
# late is `waiting` in its group; whether that is open, its number says.
#
# Accuracy is judged twice. Each device judges itself, and refuses what is worse on its own
# pictures; so it shows where only some devices lose. What no device sees for certain, the sum does:
# figures of all that reported are added up and held to the same margin.
#
# Traps:
# - Shares of small fleets. 2 % of 10 devices is none, so one that fails is too many: as it should
#   be, for it is a tenth of the fleet. A first group of 5 % of 10 devices is nobody, so the salt of
#   the draw is chosen such that it is somebody (`salted`).
# - Errors are a share of all who take part, not of those who answered first: the quickest of a
#   hundred may well be the one that refuses.
# - After a restart all devices count as just heard and as just come to where they are. How long the
#   coordinator was down says nothing about them.
# - Who is there is said by `Presence` once a second and not by every report: with ten thousand
#   devices the table is copied once a batch.

SALTS = 256  # draws that are tried for a first group of the right size
SHOWN = 3  # reasons in a sentence


@dataclass(frozen=True)
class StagingRules:
    """How a rollout goes on."""

    number: int = 0
    groups: tuple[float, ...] = (1.0,)  # shares, rising to 1
    canaries: frozenset[str] = frozenset()
    salt: int = 0
    error: float = 0.02
    trigger: float = 0.9
    margin: float = 0.03
    patience: float = 1800.0
    whole: bool = True  # else the last group need not prove it: it is for all when it opens

    def group_of(self, agent: str) -> int:
        """Where a device belongs."""
        if agent in self.canaries:
            return 0
        number = place(self.number, self.salt, agent)
        return next(g for g, share in enumerate(self.groups) if number < share or share >= 1)


@dataclass(frozen=True)
class RolloutMember:
    """A device that reported: its newest word, and since when it is where it is."""

    group: int
    report: RolloutReport
    since: float


@dataclass(frozen=True)
class RolloutState:
    """Where a rollout stands."""

    phase: PlanPhase = "open"
    group: int = 0  # the newest that is open
    words: str = ""  # why it is halted or back
    opened: float = 0.0  # when its newest group was, or it was resumed
    members: Mapping[str, RolloutMember] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)  # who is there, and in which group


@dataclass(frozen=True)
class GroupCount:
    """How many devices of a group are what."""

    waiting: int = 0
    busy: int = 0
    proven: int = 0
    failed: int = 0
    silent: int = 0

    @property
    def judged(self) -> int:
        """All that the group is held to."""
        return self.waiting + self.busy + self.proven + self.failed + self.silent

    def plus(self, other: GroupCount) -> GroupCount:
        """Both together."""
        return GroupCount(**{name: n + getattr(other, name) for name, n in vars(self).items()})


@dataclass(frozen=True)
class Reports:
    """Devices said how far they are."""

    reports: Mapping[str, RolloutReport]


@dataclass(frozen=True)
class Presence:
    """Who is there now."""

    agents: frozenset[str]


@dataclass(frozen=True)
class Halt:
    """An operator wants no further device to begin."""

    words: str


@dataclass(frozen=True)
class Resume:
    """It is to go on."""


@dataclass(frozen=True)
class Return:
    """An operator wants all of it taken back."""

    words: str


@dataclass(frozen=True)
class OpenGroup:
    """The devices of this group, too."""

    group: int


@dataclass(frozen=True)
class Conclude:
    """The whole fleet has it."""


@dataclass(frozen=True)
class Stall:
    """It waits for an operator."""

    words: str


@dataclass(frozen=True)
class GoBack:
    """Every device is to return to what was before."""

    words: str


StagingEvent = Reports | Presence | Halt | Resume | Return
StagingAction = OpenGroup | Conclude | Stall | GoBack
Outcome = tuple[RolloutState, list[StagingAction]]


def step(rules: StagingRules, state: RolloutState, event: StagingEvent, now: float) -> Outcome:
    """What an event makes of a rollout."""
    match event:
        case Reports(reports):
            present = frozenset(state.present) | reports.keys()  # whoever speaks is there
            state = _with_presence(rules, state, present)
            state = replace(state, members=_with(rules, state.members, reports, now))
        case Presence(agents):
            state = _with_presence(rules, state, agents)
        case Halt(words) if state.phase == "open":
            return replace(state, phase="halted", words=words), []
        case Resume() if state.phase == "halted":
            members = {name: replace(m, since=now) for name, m in state.members.items()}
            state = replace(state, phase="open", words="", opened=now, members=members)
        case Return(words) if state.phase != "back":
            return _back(state, words)
    return _judged(rules, state, now)


def counts(rules: StagingRules, state: RolloutState, now: float) -> list[GroupCount]:
    """Each group as it stands, whether it is open or not."""
    numbers: list[Counter[str]] = [Counter() for _ in rules.groups]
    for group, kind in _kinds(rules, state, now):
        numbers[group][kind] += 1
    return [GroupCount(**{name: n[name] for name in vars(GroupCount())}) for n in numbers]


def kind_of(rules: StagingRules, member: RolloutMember, now: float, *, there: bool) -> str:
    """What a device is that reported."""
    match member.report.step:
        case "proven":
            return "proven"
        case "refused" | "back":
            return "failed"
    if not there:
        return "silent"
    return "failed" if now - member.since > rules.patience else "busy"


def pooled(members: Mapping[str, RolloutMember]) -> TrialFigures:
    """What all trials together counted."""
    every = [member.report.figures for member in members.values()]
    names = ("pictures", "alike", "samples", "kept", "before", "after", "better", "worse")
    return TrialFigures(**{name: sum(getattr(f, name) for f in every) for name in names})


def salted(rules: StagingRules, agents: Sequence[str]) -> int:
    """The salt by which the first group has as many of these devices as its share says, canaries
    among them, and one at least; the nearest of SALTS draws.
    """
    drawn = [agent for agent in agents if agent not in rules.canaries]
    share = rules.groups[0]
    named = len(agents) - len(drawn)
    size = max(round(share * len(agents)) - named, 0 if rules.canaries else 1) if drawn else 0
    if share >= 1 or not drawn:
        return 0

    def apart(salt: int) -> int:
        inside = sum(place(rules.number, salt, agent) < share for agent in drawn)
        return abs(inside - size) if inside or rules.canaries else len(drawn) + 1

    # A fleet of thousands is near enough by any draw, and each costs a hash a device.
    salts = range(min(SALTS, max(1, 1_000_000 // len(drawn))))
    return min(salts, key=apart)


def _with(
    rules: StagingRules,
    members: Mapping[str, RolloutMember],
    reports: Mapping[str, RolloutReport],
    now: float,
) -> Mapping[str, RolloutMember]:
    fresh = {}
    for agent, report in reports.items():
        before = members.get(agent)
        same = before is not None and before.report.step == report.step
        since = before.since if before is not None and same else now
        fresh[agent] = RolloutMember(rules.group_of(agent), report, since)
    return {**members, **fresh}


def _with_presence(
    rules: StagingRules, state: RolloutState, agents: frozenset[str]
) -> RolloutState:
    if agents == state.present.keys():
        return state
    groups = {agent: state.present.get(agent, -1) for agent in agents}
    present = {agent: g if g >= 0 else rules.group_of(agent) for agent, g in groups.items()}
    return replace(state, present=present)


def _judged(rules: StagingRules, state: RolloutState, now: float) -> Outcome:
    if state.phase not in ("open", "halted"):
        return state, []
    groups = counts(rules, state, now)[: state.group + 1]
    every = GroupCount()
    for group in groups:
        every = every.plus(group)
    words = _trouble(rules, state, every, now)
    if words:
        return _back(state, words)
    return (state, []) if state.phase == "halted" else _forward(rules, state, groups[-1], now)


def _forward(rules: StagingRules, state: RolloutState, newest: GroupCount, now: float) -> Outcome:
    """The next group, if the newest is through."""
    last = state.group + 1 == len(rules.groups)
    at_end = last or not (rules.whole or state.group + 2 < len(rules.groups))
    waited_for = newest.judged - newest.silent
    patient = now - state.opened <= rules.patience
    # Where nobody of a later group is there, those before it have shown what there is to see.
    nobody = not waited_for and state.group > 0 and not patient
    if nobody or (waited_for and newest.proven >= rules.trigger * waited_for - 1e-9):
        if at_end:
            return replace(state, phase="done"), [Conclude()]
        return replace(state, group=state.group + 1, opened=now), [OpenGroup(state.group + 1)]
    if not (waited_for or newest.silent or patient):
        words = f"nobody of group {state.group + 1} answered in {rules.patience:g} s"
        return replace(state, phase="halted", words=words), [Stall(words)]
    return state, []


def _trouble(rules: StagingRules, state: RolloutState, every: GroupCount, now: float) -> str:
    """Why all of it is to be taken back; empty where nothing says so."""
    wrong = every.failed + every.silent
    if wrong > rules.error * every.judged + 1e-9:
        share = f"{wrong} of {every.judged} devices failed, at most {100 * rules.error:g} % may"
        return f"{share}: {'; '.join(_reasons(rules, state, now))}"
    sums = pooled(state.members)
    if is_worse(sums.better, sums.worse, sums.samples, rules.margin):
        points = 100 * (sums.worse - sums.better) / sums.samples
        return f"{points:.1f} points less accurate on {sums.samples} samples of all that tried it"
    return ""


def _reasons(rules: StagingRules, state: RolloutState, now: float) -> Iterator[str]:
    """The first few, one each."""
    wrong = [
        (agent, member, kind)
        for agent, member in sorted(state.members.items())
        if member.group <= state.group
        and (kind := kind_of(rules, member, now, there=agent in state.present))
        in ("failed", "silent")
    ]
    for agent, member, kind in wrong[:SHOWN]:
        yield f"{agent}: {why(member, kind)}"
    if len(wrong) > SHOWN:
        yield f"and {len(wrong) - SHOWN} more"


def why(member: RolloutMember, kind: str) -> str:
    """A device's setback in words; empty where it has none."""
    if kind == "silent":
        return f"{Setback.SILENT} since it was {member.report.step}"
    if kind != "failed":
        return ""
    if member.report.step in ("trying", "running"):
        return f"{Setback.OVERDUE}: {member.report.step} for too long"
    return member.report.words or member.report.reason


def _kinds(rules: StagingRules, state: RolloutState, now: float) -> Iterator[tuple[int, str]]:
    for agent, member in state.members.items():
        yield member.group, kind_of(rules, member, now, there=agent in state.present)
    waits = now - state.opened <= rules.patience or math.isinf(rules.patience)
    for agent, group in state.present.items():
        if agent not in state.members and (waits or group > state.group):
            yield group, "waiting"


def _back(state: RolloutState, words: str) -> Outcome:
    return replace(state, phase="back", words=words), [GoBack(words)]
