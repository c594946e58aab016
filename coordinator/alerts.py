"""What a person should know of a fleet now: one sentence, one suggestion, once."""

# Theory of operation
#
# An alert is a value that follows from how things stand. `alerts` is a pure function of a
# `Situation`; nothing is raised, and nothing has to be taken back: an alert is there as long as its
# reason is.
#
#   kind          there while                                               level
#   broker        the coordinator has no connection                         bad
#   classifier    what was contributed comes to no classifier               bad
#   silent        a device is gone and did not say goodbye                  bad
#   accuracy      the newest measurement is FELL below the ones before it,  bad
#                 and by more than chance
#   disk          less is free than LITTLE, and than a twentieth            bad
#   certificate   one ends within SOON, though it should have been renewed  warn; within LAST bad
#   refused       what a device sends is refused, or it cannot use what     warn
#                 it was sent
#   drift         a device's pictures have changed                          warn
#   suspect       a device's class looks like another one everywhere else   warn
#   doubted       most others contradict a device: it is not heard          warn
#   waiting       classes wait for an operator                              warn
#
# Once: `kind` and `subject` name an alert however its sentence goes on ("for 3 minutes", "for 4").
# `since` compares two looks by these names, so that an event is written when an alert appears and
# when its reason is gone, and never in between. Of more than FEW devices with one trouble one alert
# speaks: where a broker's room is dark nobody reads fifty sentences.

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "broker",
    "classifier",
    "silent",
    "accuracy",
    "disk",
    "certificate",
    "refused",
    "drift",
    "suspect",
    "doubted",
    "waiting",
]
KINDS: tuple[str, ...] = get_args(Kind)
Level = Literal["bad", "warn"]

FEW = 5  # alerts of a kind that name a device each
FELL, PAST = 0.05, 5  # points of accuracy, below the mean of so many measurements before
SURE = 3.0  # standard errors
LITTLE, SHARE = 1_000_000_000, 0.05  # bytes of a disk, or a share of it
DAY = 86_400.0
SOON, LAST = 21 * DAY, 7 * DAY  # devices renew theirs when 30 days are left


@dataclass(frozen=True)
class Alert:
    """One thing that is wrong, and what to do."""

    kind: Kind
    subject: str  # a device, a class; empty: the fleet
    sentence: str
    suggestion: str
    level: Level = "warn"

    @property
    def key(self) -> str:
        """What makes it the same one a minute later."""
        return f"{self.kind} {self.subject}".strip()


@dataclass(frozen=True)
class DeviceGlance:
    """As much of a device as there can be trouble with."""

    agent: str
    silent_for: float | None = None  # seconds; None: it is not silent
    refusal: str = ""
    notice: str = ""  # what it cannot use
    drift: str = ""
    suspects: tuple[str, ...] = ()
    doubted: bool = False


@dataclass(frozen=True)
class Measurement:
    """What share was right, of how many."""

    share: float
    samples: int


@dataclass(frozen=True)
class DiskSpace:
    """Bytes."""

    free: int
    total: int


@dataclass(frozen=True)
class Situation:
    """How a fleet stands."""

    devices: Sequence[DeviceGlance] = ()
    connected: bool = True
    trouble: str = ""
    waiting: Sequence[str] = ()
    history: Sequence[Measurement] = ()  # oldest first
    disk: DiskSpace | None = None
    certificates: Sequence[tuple[str, float]] = ()  # a device's, and seconds until it ends
    own_certificates: Sequence[tuple[str, float]] = ()  # authority, coordinator, broker: likewise


def alerts(now: Situation) -> tuple[Alert, ...]:
    """All there are, the worst first."""
    every = [alert for rule in RULES for alert in rule(now)]
    return tuple(sorted(every, key=lambda one: (one.level != "bad", KINDS.index(one.kind))))


def since(before: Iterable[str], now: Sequence[Alert]) -> tuple[list[Alert], list[str]]:
    """Which alerts are new, and the names of those whose reason is gone."""
    names = set(before)
    return [one for one in now if one.key not in names], sorted(names - {one.key for one in now})


def _broker(now: Situation) -> list[Alert]:
    if now.connected:
        return []
    words = "The coordinator has no connection to the broker: no device is heard."
    return [Alert("broker", "", words, "Look whether the broker runs and can be reached.", "bad")]


def _classifier(now: Situation) -> list[Alert]:
    if not now.trouble:
        return []
    words = f"What devices contributed comes to no classifier, the last one stays: {now.trouble}"
    hint = "Forget the device whose contribution came last, or go back to an earlier version."
    return [Alert("classifier", "", words, hint, "bad")]


def _silent(now: Situation) -> list[Alert]:
    return _of_devices(
        now,
        "silent",
        lambda device: (
            ""
            if device.silent_for is None
            else f"{device.agent} has been silent for {lasting(device.silent_for)}."
        ),
        "Look whether it has power and network; forget it if it does not come back.",
        "devices are silent",
        "bad",
    )


def _accuracy(now: Situation) -> list[Alert]:
    if len(now.history) < 2:
        return []
    newest, past = now.history[-1], now.history[-1 - PAST : -1]
    samples = sum(one.samples for one in past)
    weight = max(samples, 1)
    before = sum(one.share * one.samples for one in past) / weight
    chance = math.sqrt(before * (1 - before) * (1 / weight + 1 / max(newest.samples, 1)))
    fell = before - newest.share
    if fell < FELL or fell <= SURE * chance:
        return []
    words = f"Accuracy fell from {100 * before:.0f} % to {100 * newest.share:.0f} %."
    hint = "Look who contributed last (Events) and at suspect classes; go back a version (Classes)."
    return [Alert("accuracy", "", words, hint, "bad")]


def _disk(now: Situation) -> list[Alert]:
    disk = now.disk
    if disk is None or disk.free >= LITTLE or disk.free >= SHARE * disk.total:
        return []
    words = f"The coordinator's disk is almost full: {disk.free / 1e6:.0f} MB are free."
    hint = "Make room, or stop the coordinator and run `coordinator compact`."
    return [Alert("disk", "", words, hint, "bad")]


def _certificate(now: Situation) -> list[Alert]:
    hint = "Start the device and let it reach the broker: it renews by itself; or invite it anew."
    devices = _ending(now.certificates, "", hint)
    hint = "Start the coordinator again: it signs new ones for itself and the broker."
    own = _ending(now.own_certificates, "the ", hint)
    return [*own, *_few(devices, f"{len(devices)} certificates end within {lasting(SOON)}")]


def _ending(of: Sequence[tuple[str, float]], the: str, hint: str) -> list[Alert]:
    """Of those that end soon, the first to end first."""
    return [
        Alert(
            "certificate",
            name,
            f"The certificate of {the}{name} "
            + (f"ends in {lasting(seconds)}." if seconds > 0 else "has ended."),
            hint,
            "bad" if seconds < LAST else "warn",
        )
        for name, seconds in sorted(of, key=lambda one: one[1])
        if seconds < SOON
    ]


def _refused(now: Situation) -> list[Alert]:
    return _of_devices(
        now,
        "refused",
        lambda device: (
            f"What {device.agent} sends is refused: {device.refusal}"
            if device.refusal
            else f"{device.agent} says: {device.notice}"
            if device.notice
            else ""
        ),
        "Read why (Devices); most often its version or its extractor is another one.",
        "devices are refused, or cannot use what they are sent",
    )


def _drift(now: Situation) -> list[Alert]:
    hint = "Look at its lens, light and view; label some of its new pictures on its page."
    return _of_devices(now, "drift", lambda device: device.drift, hint, "devices see other things")


def _suspect(now: Situation) -> list[Alert]:
    hint = "Look at its photos of that class; correct them there, or forget the device."
    words = "devices have a class that looks like another one everywhere else"
    return _of_devices(now, "suspect", lambda device: _first(device.suspects), hint, words)


def _first(sentences: Sequence[str]) -> str:
    """One of them, and how many more there are."""
    more = f", and {len(sentences) - 1} more like that" if len(sentences) > 1 else ""
    return f"{sentences[0]}{more}." if sentences else ""


def _doubted(now: Situation) -> list[Alert]:
    return _of_devices(
        now,
        "doubted",
        lambda device: (
            f"Most others contradict {device.agent}: it is not heard." if device.doubted else ""
        ),
        "Look at its labels; forget or revoke it if they are wrong on purpose.",
        "devices are contradicted by most others, and not heard",
    )


def _waiting(now: Situation) -> list[Alert]:
    if not now.waiting:
        return []
    several = len(now.waiting) > 1
    words = f"{_listed(now.waiting)} wait{'' if several else 's'} for your word."
    return [Alert("waiting", "", words, "Admit or remove under Classes.")]


RULES: tuple[Callable[[Situation], list[Alert]], ...] = (
    _broker,
    _classifier,
    _silent,
    _accuracy,
    _disk,
    _certificate,
    _refused,
    _drift,
    _suspect,
    _doubted,
    _waiting,
)


def _of_devices(
    now: Situation,
    kind: Kind,
    sentence: Callable[[DeviceGlance], str],
    hint: str,
    together: str,
    level: Level = "warn",
) -> list[Alert]:
    """One a device, where its sentence says anything."""
    rows = [(device.agent, words) for device in now.devices if (words := sentence(device))]
    single = [Alert(kind, agent, words, hint, level) for agent, words in rows]
    return _few(single, f"{len(rows)} of {len(now.devices)} {together}")


def _few(rows: list[Alert], together: str) -> list[Alert]:
    """These, or one that speaks for all of them."""
    if len(rows) <= FEW:
        return rows
    first = rows[0]
    names = _listed([one.subject for one in rows])
    return [Alert(first.kind, "", f"{together}: {names}.", first.suggestion, first.level)]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - FEW
    return ", ".join(names[:FEW]) + (f" and {more} more" if more > 0 else "")


def lasting(seconds: float) -> str:
    """A time as people say it."""
    for unit, size in (("days", DAY), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} seconds"
