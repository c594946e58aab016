"""What coordinator and devices say of a rollout: the plan, for all at once, and what each device
reports of itself.
"""

# Theory of operation
#
# A plan is one retained message for a fleet of any size, so it names nobody but canaries. Whoever
# reads it draws a number from 0 to 1 of the plan's salt and its own name, and is in as long as the
# number is below the share that is open. A share only grows, so who is in stays in; and who was
# born a minute ago is where everybody of its number is.
#
#   phase     who is in and has not begun   who runs it                    the others
#   open      begins                        stays                          wait
#   halted    waits                         stays                          wait
#   back      waits                         returns to what was before     -
#   done      begins (everybody is in)      stays                          -
#
# What is tried is a bundle, or with `state` the classes for the bundle that everybody has; the
# bytes of either are on the channel CANARY, until the plan is done and they are on STABLE. A bundle
# of the lineage that the fleet has classifies by what STABLE says; only one of another lineage has
# classes of its own on CANARY. The plan says which lineage, as messages come in any order.
#
# Reports are retained, too: one a device, its newest step. A coordinator that was away hears all of
# them when it is back, and one that comes twice says nothing new.
#
#   step      says
#   trying    it is in, and fetches and tries
#   running   the trial is passed: it answers by the candidate
#   proven    it did so for a while, in use and after a start from nothing but its disk
#   refused   it stays with what it had; why
#   back      it had it, and returned to what was before
#
# Figures are counts, so that those of many devices add up.

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, get_args

from protofleet import wire
from protofleet.errors import SettingError, WireError
from protofleet.settings.fields import from_plain, setting, to_plain
from protofleet.wire import Envelope
from protofleet.wire.codes import Setback

CANARY = "canary"  # the channel of what is tried
MOST_CANARIES = 500  # named: they travel with every plan
LONGEST_WORDS = 250
LARGEST = 2**31

PlanPhase = Literal["open", "halted", "back", "done"]
Step = Literal["trying", "running", "proven", "refused", "back"]
STEPS: tuple[str, ...] = get_args(Step)


@dataclass(frozen=True)
class TrialTerms:
    """What a device holds a candidate to before it answers by it, and for how long after."""

    compare: bool = setting(True, "beside what is in use; else by its self-test alone")
    margin: float = setting(0.03, "accuracy that it may lose on a device", low=0, high=1)
    slower: float = setting(2.0, "times the processor time of one answer", low=1, high=1000)
    larger: float = setting(2.0, "times the memory", low=1, high=1000)
    soak: float = setting(600.0, "seconds in use before it is proven", low=0, high=1e7)


@dataclass(frozen=True)
class RolloutPlan:
    """Who is to run what by now."""

    number: int = setting(0, "of the rollout", low=0, high=LARGEST)
    bundle: str = ""
    lineage: str = ""  # of that bundle
    phase: PlanPhase = "open"
    share: float = setting(0.0, "of the devices", low=0, high=1)
    salt: int = setting(0, "what the draw begins with", low=0, high=LARGEST)
    canaries: tuple[str, ...] = ()
    state: str = ""  # the digest of the classes that are tried, where the bundle stays as it is
    terms: TrialTerms = field(default_factory=TrialTerms)

    def includes(self, agent: str) -> bool:
        """Whether this device is in."""
        return agent in self.canaries or place(self.number, self.salt, agent) < self.share


@dataclass(frozen=True)
class TrialFigures:
    """What a trial counted: pictures that both were shown, and labelled ones that either named."""

    pictures: int = setting(0, "", low=0, high=LARGEST)
    alike: int = setting(0, "answered alike", low=0, high=LARGEST)
    samples: int = setting(0, "with a label", low=0, high=LARGEST)
    kept: int = setting(0, "of them, that nothing was learnt from", low=0, high=LARGEST)
    before: int = setting(0, "right by what is in use", low=0, high=LARGEST)
    after: int = setting(0, "right by the candidate", low=0, high=LARGEST)
    better: int = setting(0, "right by the candidate alone", low=0, high=LARGEST)
    worse: int = setting(0, "right by what is in use alone", low=0, high=LARGEST)
    slower: float = setting(0.0, "times the processor time of one answer", low=0, high=1e9)
    larger: float = setting(0.0, "times the memory", low=0, high=1e9)
    answers: int = setting(0, "in use, since", low=0, high=LARGEST)


@dataclass(frozen=True)
class RolloutReport:
    """What a device runs, and how far it is with the rollout of this number (0: with none)."""

    runs: str = ""
    rollout: int = setting(0, "", low=0, high=LARGEST)
    step: Step | None = None
    reason: str = ""  # a `Setback`, or what a newer release calls one
    words: str = ""
    figures: TrialFigures = field(default_factory=TrialFigures)


def place(number: int, salt: int, agent: str) -> float:
    """A number from 0 to 1 that belongs to this device and this rollout."""
    return int(sha256(f"{number}:{salt}:{agent}".encode()).hexdigest()[:16], 16) / 2.0**64


def write_plan(plan: RolloutPlan, envelope: Envelope) -> bytes:
    """The message."""
    return wire.encode(envelope, to_plain(plan))


def read_plan(payload: bytes) -> RolloutPlan:
    """What came, or `WireError`."""
    plan: RolloutPlan = _read(payload, "desired", RolloutPlan)
    if len(plan.canaries) > MOST_CANARIES or not plan.bundle:
        raise WireError(f"a plan: a bundle and at most {MOST_CANARIES} canaries are due")
    return plan


def write_report(report: RolloutReport, envelope: Envelope) -> bytes:
    """The message."""
    return wire.encode(envelope, to_plain(report))


def read_report(payload: bytes) -> tuple[RolloutReport, Envelope]:
    """What came and who says it, or `WireError`; words are of one line and short."""
    report, envelope = _read(payload, "reported", RolloutReport), wire.unseal(payload)[0]
    clean = "".join(c if c.isprintable() else "?" for c in report.words)[:LONGEST_WORDS]
    reason = report.reason[:40] if report.reason.isprintable() else Setback.BUNDLE
    plain = {**vars(report), "words": clean, "reason": reason}
    return RolloutReport(**plain), envelope


def _read(payload: bytes, t: str, kind: type[Any]) -> Any:
    message = wire.decode(payload)
    if message.envelope.t != t:
        raise WireError(f"a message of type {t} is due, not {message.envelope.t}")
    try:
        return from_plain(kind, message.body, t)
    except SettingError as error:
        raise WireError(error.words) from None
