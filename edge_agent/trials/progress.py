"""How far a device is with what is rolled out to it, as a table of (step, facts) -> (step, action):
pure, so that every order of plans, crashes and answers can be tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edge_agent.updates.uses import UseCount
from protofleet.exchange.published import About
from protofleet.exchange.rollouts import RolloutPlan, RolloutReport, Step, TrialFigures, TrialTerms
from protofleet.exchange.signs import is_worse
from protofleet.wire.codes import Setback

# Theory of operation
#
# A device has a bundle in use, knows the newest plan, and remembers how far it is with it (in
# `rollout.json`). Whatever happens, and at each start, it looks at the facts and does the one thing
# that is next; so it may be killed at any instant and does not have to repair anything.
#
#   step      facts                                  becomes   action
#   --------  -------------------------------------  --------  -----------------------------------
#   any       a plan of another number               none      it begins anew, with that plan
#   any       the plan is back                       back      the channel says what to return to
#   none      in, the plan open or done              trying    -
#   none      in, and has the bundle already         running   -
#   trying    halted                                 trying    nothing; a trial that runs ends
#   trying    the candidate is not here              trying    Fetch
#   trying    it is here                             trying    Try, beside what is in use
#   trying    it is in use (a crash after adopting)  running   -
#   trying    the trial fails                        refused   it is removed
#   trying    the trial is passed                    running   Adopt: the old one stays on the disk
#   running   started and never answered, SICK_AT    refused   the channel's rule: the old one again
#   running   used, or time enough, for `soak`       running   Prove: a start from the disk alone
#   running   it is proven                           proven    -
#   proven    sick as above, the plan not done yet   refused   the old one again
#   refused, back                                    the same  until another plan comes
#
# In use is what `fleet.pfb` is: the file says it, and no record has to agree with it. It is
# replaced by a rename, after the old one got another name, so a crash in between leaves one or the
# other; the table's third line of `trying` takes up what was adopted and not yet noted.
#
# Which state of the channels is followed (`followed`) is a function of the same facts. Who is on
# the candidate goes by STABLE where it speaks of this lineage, else by CANARY; who is not, and
# finds that STABLE names the candidate already, keeps what it has.
#
# Alive after a restart. The daemon counts its own starts while the candidate is not proven, and
# processes that classify count theirs (`edge_agent.updates.uses`): who starts SICK_AT times without
# becoming healthy returns by itself, and needs nobody for it. A camera at night sees nothing, so
# where no answer comes LONG times the soak is enough.

ANSWERS = 10  # in use, before it is proven
LONG = 3.0  # times the soak, where nobody asks it anything
SICK_AT = 3  # starts of a process that classifies, without one answer
MOST_STARTS = 10  # of the daemon, unproven
SMALL_COST = 0.005  # seconds of processor time that no device misses
SMALL_SIZE = 32 << 20  # and bytes

Source = Literal["stable", "canary", "own"]


@dataclass(frozen=True)
class RolloutStanding:
    """How far a device is with the plan of this number."""

    number: int = 0
    step: Step | None = None
    reason: str = ""
    words: str = ""
    figures: TrialFigures = field(default_factory=TrialFigures)
    before: str = ""  # the bundle that was in use when it began
    starts: int = 0  # of the daemon, since it runs the candidate

    @property
    def is_on(self) -> bool:
        """Whether this device answers by the candidate."""
        return self.step in ("running", "proven")

    def report(self, in_use: str) -> RolloutReport:
        """As it is told."""
        return RolloutReport(in_use, self.number, self.step, self.reason, self.words, self.figures)

    def refusing(self, reason: str, words: str) -> RolloutStanding:
        """It is none for this device."""
        return replace(self, step="refused", reason=str(reason), words=words)


@dataclass(frozen=True)
class Facts:
    """What is so on this device."""

    plan: RolloutPlan
    agent: str
    in_use: str = ""  # the bundle
    at_rest: bool = True  # what is in use is what it is to be, and nothing else goes on
    here: bool = False  # what is to be tried lies on the disk
    running_for: float = 0.0  # seconds since it adopted the candidate, or started with it
    uses: UseCount = field(default_factory=UseCount)


@dataclass(frozen=True)
class FetchCandidate:
    """Bring it here."""


@dataclass(frozen=True)
class TryCandidate:
    """Run it beside what is in use."""


@dataclass(frozen=True)
class ProveCandidate:
    """Start it from the disk alone."""


Deed = FetchCandidate | TryCandidate | ProveCandidate


@dataclass(frozen=True)
class ChannelState:
    """What a channel says: what it is about, and its digest."""

    about: About
    digest: str


@dataclass(frozen=True)
class Course:
    """Which state is to be followed, and with which bundle."""

    source: Source
    bundle: str


@dataclass(frozen=True)
class TrialOutcome:
    """What a trial came to; no reason: it is passed."""

    reason: str = ""
    words: str = ""
    figures: TrialFigures = field(default_factory=TrialFigures)


def next_deed(standing: RolloutStanding, facts: Facts) -> tuple[RolloutStanding, Deed | None]:
    """What is to be done now."""
    plan = facts.plan
    if standing.number != plan.number:
        standing = RolloutStanding(plan.number, before=facts.in_use)
    if plan.phase == "back":
        on = standing.step in ("trying", "running", "proven")
        return (replace(standing, step="back") if on else standing), None
    match standing.step:
        case None:
            return _beginning(standing, facts)
        case "trying":
            return _trying(standing, facts)
        case "running" | "proven":
            return _running(standing, facts)
    return standing, None


def tried(standing: RolloutStanding, outcome: TrialOutcome) -> RolloutStanding:
    """The trial ended."""
    if standing.step != "trying":
        return standing
    standing = replace(standing, figures=outcome.figures)
    if outcome.reason:
        return standing.refusing(outcome.reason, outcome.words)
    return replace(standing, step="running", starts=0)


def proved(standing: RolloutStanding, words: str, answers: int) -> RolloutStanding:
    """The start from the disk ended; words: why it failed."""
    if standing.step != "running":
        return standing
    if words:
        return standing.refusing(Setback.SICK, words)
    figures = replace(standing.figures, answers=min(answers, 2**31))
    return replace(standing, step="proven", figures=figures)


def started(standing: RolloutStanding) -> RolloutStanding:
    """The daemon began."""
    return replace(standing, starts=standing.starts + 1) if standing.step == "running" else standing


def followed(
    standing: RolloutStanding,
    facts: Facts,
    stable: ChannelState,
    canary: ChannelState | None,
    lineage: str,
) -> Course:
    """Whose word counts here; `lineage` is that of the bundle in use."""
    plan, named = facts.plan, stable.about.bundle
    # Whoever has it already takes part by that alone, before anything is noted of it.
    on = standing.number == plan.number and standing.is_on and plan.phase != "back"
    if plan.state:
        tries = on and plan.phase != "done" and canary is not None and canary.digest == plan.state
        return Course("canary" if tries else "stable", named)
    if on:
        if plan.bundle == named or plan.lineage == stable.about.lineage:
            return Course("stable", plan.bundle)
        fits = canary is not None and canary.about.bundle == plan.bundle
        return Course("canary" if fits else "own", plan.bundle)
    if named != plan.bundle or facts.plan.number == 0:
        return Course("stable", named)
    # All are to have it, and this device does not yet, or not any more.
    ours = facts.in_use if facts.in_use != plan.bundle else standing.before
    if ours == plan.bundle:
        ours = ""
    fits = bool(ours) and stable.about.lineage == lineage and facts.in_use == ours
    return Course("stable" if fits else "own", ours)


def verdict(terms: TrialTerms, figures: TrialFigures, costs: Mapping[str, Any]) -> TrialOutcome:
    """Whether what was counted and measured lets the candidate in; `costs` are seconds of processor
    time an answer and bytes, of what is in use and of the candidate.
    """
    seconds, size = costs["seconds"], costs["bytes"]
    slower, larger = _times(*seconds), _times(*size)
    figures = replace(figures, slower=slower, larger=larger)
    if is_worse(figures.better, figures.worse, figures.samples, terms.margin):
        points = 100 * (figures.worse - figures.better) / figures.samples
        words = f"{points:.1f} points less accurate on {figures.samples} samples"
        return TrialOutcome(Setback.WORSE, words, figures)
    if slower > terms.slower and seconds[1] - seconds[0] > SMALL_COST:
        words = f"{1000 * seconds[1]:.0f} ms an answer, {1000 * seconds[0]:.0f} before"
        return TrialOutcome(Setback.SLOWER, words, figures)
    if larger > terms.larger and size[1] - size[0] > SMALL_SIZE:
        words = f"{int(size[1]) >> 20} MB of memory, {int(size[0]) >> 20} before"
        return TrialOutcome(Setback.LARGER, words, figures)
    return TrialOutcome(figures=figures)


def _beginning(standing: RolloutStanding, facts: Facts) -> tuple[RolloutStanding, Deed | None]:
    plan = facts.plan
    if plan.phase == "halted" or not plan.includes(facts.agent) or not facts.at_rest:
        return standing, None
    if facts.in_use == plan.bundle and not plan.state:
        return replace(standing, step="running"), None
    return replace(standing, step="trying", before=facts.in_use), None


def _trying(standing: RolloutStanding, facts: Facts) -> tuple[RolloutStanding, Deed | None]:
    plan = facts.plan
    if facts.in_use == plan.bundle and not plan.state:
        return replace(standing, step="running", starts=0), None
    if plan.phase == "halted" or not facts.at_rest:
        return standing, None
    return standing, TryCandidate() if facts.here else FetchCandidate()


def _running(standing: RolloutStanding, facts: Facts) -> tuple[RolloutStanding, Deed | None]:
    plan, uses = facts.plan, facts.uses
    unproven = standing.step == "running"
    counts = uses.bundle == plan.bundle
    if plan.phase != "done" or unproven:
        if counts and uses.silent >= SICK_AT:
            words = f"what classifies here started {uses.silent} times and never answered"
            return standing.refusing(Setback.SICK, words), None
        if unproven and standing.starts > MOST_STARTS:
            words = f"this device started {standing.starts} times before it was proven"
            return standing.refusing(Setback.SICK, words), None
    soak = plan.terms.soak
    asked_enough = counts and uses.answers >= ANSWERS
    waits = soak if asked_enough or not uses.bundle else LONG * soak
    if unproven and facts.at_rest and facts.in_use == plan.bundle and facts.running_for >= waits:
        return standing, ProveCandidate()
    return standing, None


def _times(before: float, after: float) -> float:
    return after / before if before > 0 else 0.0
