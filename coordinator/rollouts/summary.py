"""What operators are told of rollouts, as plain documents."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from coordinator.journal.progress import RolloutRecord, RolloutTables
from coordinator.rollouts import staging
from coordinator.rollouts.steering import Rollouts


def glance(rollouts: Rollouts, now: float) -> dict[str, Any] | None:
    """A rollout in a few words, for whoever looks at the whole fleet; None where there is none."""
    if not rollouts.number:
        return None
    document = status(rollouts, now)
    document.pop("devices")
    return document


def status(rollouts: Rollouts, now: float) -> dict[str, Any]:
    """The newest rollout. Called while the loop goes on: each value is taken once."""
    number, terms, rules, state = rollouts.number, rollouts.terms, rollouts.rules, rollouts.state
    if not number:
        return {"rollout": None, "devices": [], "groups": []}
    numbers = staging.counts(rules, state, now)
    sums = staging.pooled(state.members)
    runs = dict(rollouts.runs)
    return {
        "rollout": number,
        "kind": "classes" if terms.is_classes else "bundle",
        "bundle": terms.bundle,
        "state": terms.state,
        "phase": state.phase,
        "words": state.words,
        "group": state.group + 1,
        "groups": [
            {"group": i + 1, "share": share, "opened": i <= state.group, **asdict(count)}
            for i, (share, count) in enumerate(zip(rules.groups, numbers, strict=True))
        ],
        "canaries": list(terms.canaries),
        "most_errors": terms.error,  # `error` is an answer's that is one
        "trigger": terms.trigger,
        "trial": asdict(terms.trial),
        "by": terms.by,
        "samples": sums.samples,
        "before": sums.before / sums.samples if sums.samples else None,
        "after": sums.after / sums.samples if sums.samples else None,
        "agreement": sums.alike / sums.pictures if sums.pictures else None,
        "on_it": 0 if terms.is_classes else sum(r == terms.bundle for r in runs.values()),
        "devices": [
            _device(rollouts, agent, now) for agent in sorted(state.members) if agent in runs
        ],
    }


def every(tables: RolloutTables) -> dict[str, Any]:
    """All that are remembered, newest first."""
    return {"rollouts": [_record(record) for record in reversed(tables.all())]}


def history(tables: RolloutTables, number: int | None, last: int) -> dict[str, Any]:
    """Who ran what when, oldest first."""
    return {"steps": [asdict(step) for step in tables.steps(number, last)]}


def _record(record: RolloutRecord) -> dict[str, Any]:
    terms = record.terms
    return {
        "rollout": record.number,
        "kind": "classes" if terms.get("state") else "bundle",
        "bundle": terms.get("bundle", ""),
        "phase": record.phase,
        "words": record.words,
        "group": record.stage + 1,
        "groups": list(terms.get("groups", ())),
        "by": terms.get("by", ""),
        "at": record.at,
    }


def _device(rollouts: Rollouts, agent: str, now: float) -> dict[str, Any]:
    rules, state = rollouts.rules, rollouts.state
    member = state.members[agent]
    kind = staging.kind_of(rules, member, now, there=agent in state.present)
    return {
        "agent": agent,
        "group": member.group + 1,
        "step": member.report.step,
        "is": kind,
        "runs": rollouts.runs.get(agent, ""),
        "reason": member.report.reason,
        "words": staging.why(member, kind),
        "seconds": now - member.since,
        "figures": asdict(member.report.figures),
    }
