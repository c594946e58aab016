"""What operators are told of a running coordinator, as plain documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import protofleet
from coordinator.core import Core
from coordinator.devices import DeviceRecord
from coordinator.journal.journal import Journal
from coordinator.messages import Messages
from coordinator.rollouts import summary
from protofleet.errors import UsageError
from protofleet.exchange import learned

DRIFTING = 100  # devices whose drift is shown at a glance; `agents` has all
EVENTS = 1000  # of the newest, among which a round's are looked for
NO_TRAFFIC: Mapping[str, int] = MappingProxyType({})


def status(
    core: Core,
    messages: Messages,
    now: float,
    uptime: float,
    connected: bool,
    dropped: Mapping[str, int],
    alerts: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The whole at a glance. Called while the loop goes on: each value is taken once."""
    state, devices, counters = core.run_state, core.devices.values(), core.intake.counters
    meeting = None if core.assembly is None else core.assembly.meeting
    forever, verdict = math.isinf(state.deadline), learned.verdict(core.state.shared)
    return {
        "alerts": list(alerts),
        "version": protofleet.__version__,
        "fleet": messages.topics.fleet,
        "run": messages.contract.run,
        "epoch": messages.epoch,
        "method": messages.recipe.name,
        "phase": _phase(core),
        "round": state.number,
        "rounds": core.rules.rounds,
        "asked": core.rules.cut or len(state.asked),
        "answered": len(state.answered),
        "missing": state.missing if meeting is None else meeting.missing,
        "masking": "" if meeting is None else meeting.step,
        "seconds_left": None if forever else max(0.0, state.deadline - now),
        "agents_online": sum(d.online for d in devices),
        "agents_known": len(devices),
        "agents_gone": sum(d.gone(now, core.terms.patience) and not d.left for d in devices),
        "agents_astray": sum(d.online and d.epoch > messages.epoch for d in devices),
        "accuracy": core.accuracy(),
        "accuracy_std": core.spread(),
        "reported": sum(bool(d.accuracy) and d.round == core.base_round for d in devices),
        "uploads": counters.uploads,
        "upload_bytes": counters.bytes,
        "duplicates": counters.duplicates,
        "late": counters.late,
        "refused": dict(counters.refused),
        "dropped": dict(dropped),
        "last_refusals": counters.last[-5:],
        "state_round": core.base_round,
        "state_sha256": core.state.sha256,
        "verdict": "" if verdict is None else verdict.sentence,
        "ledger": None if core.terms.private is not None else ledger(core),
        "budget": budget(core),
        "rollout": summary.glance(core.rollouts, now),
        "connected": connected,
        "uptime_seconds": uptime,
    }


def budget(core: Core) -> dict[str, Any] | None:
    """What may be told, and what of it was; None where nobody counts."""
    private, many = core.terms.private, core.publications
    if private is None:
        return None
    account = private.accountant
    spent, most = account.spent(many), account.budget.epsilon
    return {
        "unit": private.unit,
        "epsilon": most,
        "delta": account.budget.delta,
        "clip": account.budget.norm,
        "spent": spent,
        "left": max(0.0, most - spent),
        "publications": many,
        "publications_left": account.publications - many,
    }


def ledger(core: Core) -> dict[str, Any] | None:
    """What devices contributed comes to; None where nothing is frozen."""
    keeper, book = core.keeper, core.catalogue.book
    # Whether there is anything newer comes first: the version that is read after it has all of it.
    settled, counted = keeper.is_settled, len(keeper.tally.devices)
    held_out = keeper.held_out
    version = keeper.version
    if not version.lineage:
        return None
    whole = version.knowledge
    return {
        "lineage": version.lineage,
        "bundle": book.bundle,
        "version": keeper.number,
        "total": version.total,
        "state_sha256": version.state.sha256,
        "devices": version.devices,
        "samples": version.samples,
        "classes": 0 if whole is None else len(whole.head.classes),
        "calibrated_by": 0 if whole is None else whole.calibration.samples,
        "current": whole is not None and whole.calibration.current,
        "held_out": held_out.words if held_out.samples else "",
        "shrinkage": None if whole is None else whole.choice.shrinkage,
        "temperature": None if whole is None else whole.choice.temperature,
        "counted": counted,
        "settled": settled,
        "waiting": list(book.pending),
        "suspects": [pair.sentence for pair in keeper.comparisons.all],
        "drift": [one.document for one in keeper.drifts.all[:DRIFTING]],
        "doubted": list(version.doubted),
        "misjudging": list(version.misjudging),
        "trouble": keeper.trouble,
    }


def agents(core: Core, now: float, traffic: Mapping[str, int] = NO_TRAFFIC) -> dict[str, Any]:
    """Every device, and what it said of itself; `traffic` is what it sent, in bytes."""
    samples = _samples(core)
    return {
        "agents": [
            {
                **_contributions(core, d, samples.get(d.agent, {})),
                "agent": d.agent,
                "online": d.online,
                "left": d.left,
                "gone": d.gone(now, core.terms.patience),
                "seen_seconds_ago": now - d.seen,
                "round": d.round,
                "accuracy": dict(d.accuracy),
                "declines": d.declines,
                "notice": d.notice,
                "runs": core.rollouts.runs.get(d.agent, ""),
                "bytes": traffic.get(d.agent, 0),
                "refused": core.intake.counters.newest.get(d.agent, ""),
                **d.about,
            }
            for d in sorted(_everybody(core), key=lambda d: d.agent)
        ]
    }


def _samples(core: Core) -> dict[str, dict[str, int]]:
    """What every device has in the ledger, by class."""
    samples: dict[str, dict[str, int]] = {}
    for (agent, _), entry in core.keeper.ledger.entries.items():
        classes = samples.setdefault(agent, {})
        for name, number in entry.classes.items():
            classes[name] = classes.get(name, 0) + number
    return samples


def _everybody(core: Core) -> list[DeviceRecord]:
    """Devices that were born, and those that contributed by hand and never were."""
    unborn = set(core.keeper.ledger.agents) - core.devices.keys()
    return [*core.devices.values(), *(DeviceRecord(agent, left=True) for agent in unborn)]


def _contributions(core: Core, device: DeviceRecord, samples: Mapping[str, int]) -> dict[str, Any]:
    """What a device has in the ledger, of which of its classes it says nothing, and what is
    doubtful; nothing where there is no ledger.
    """
    if not core.keeper.version.lineage or core.terms.private is not None:
        return {}
    agent, classes = device.agent, device.about.get("classes", [])
    suspects = core.keeper.comparisons.suspects.get(agent, ())
    drifting = core.keeper.drifts.devices.get(agent)
    return {
        "contributed": dict(samples),
        "unsaid": [name for name in classes if name not in samples],
        "suspects": [pair.sentence for pair in suspects],
        "drift": None if drifting is None else drifting.document,
        "doubted": agent in core.keeper.version.doubted,
        "misjudging": agent in core.keeper.version.misjudging,
    }


def _phase(core: Core) -> str:
    if core.is_ledger:
        return "ledger"
    state = core.run_state
    return "paused" if state.paused and state.phase == "waiting" else state.phase


def all_rounds(journal: Journal, last: int) -> dict[str, Any]:
    """The newest rounds, oldest first."""
    return {"rounds": [_round(journal, opened.round) for opened in journal.rounds(last)]}


def one_round(journal: Journal, number: int) -> dict[str, Any]:
    """One round: who was asked, what came, where it was cut and what came out."""
    if journal.round(number) is None:
        newest = [opened.round for opened in journal.rounds(1)] or [0]
        raise UsageError(f"round {number} was not opened", f"the newest is {newest[0]}")
    uploads = [vars(upload) for upload in journal.uploads(number)]
    events = [event for event in journal.events(EVENTS) if event["round"] == number]
    return {**_round(journal, number), "uploads": uploads, "events": events}


def _round(journal: Journal, number: int) -> dict[str, Any]:
    opened, cut = journal.round(number), journal.cut(number)
    return {
        "round": number,
        "asked": len(opened.asked) if opened else 0,
        "base": opened.base if opened else None,
        "base_round": opened.base_round if opened else None,
        "talks": opened.talks if opened else None,
        "uploads": len(cut.counted) if cut else len(journal.uploads(number)),
        "reason": cut.reason if cut else None,
        "failed": cut.failed if cut else "",
        "state_sha256": journal.state_hash(number),
    }
