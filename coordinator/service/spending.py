"""What a fleet's publications may tell, by its settings; refused in a line where it cannot be
promised.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from coordinator.config import FleetConfig
from coordinator.journal.journal import Journal
from coordinator.rounds.machine import RoundRules
from coordinator.service.extractors import RANDOM
from protofleet.budget.accountant import budget_of
from protofleet.budget.private import Private
from protofleet.contract import Budget, Contract
from protofleet.errors import SettingError
from protofleet.exchange import archive
from protofleet.recipe import Recipe, Turn
from protofleet.settings.fields import from_plain


def of_plan(plan: FleetConfig, recipe: Recipe[Any], journal: Journal) -> Budget | None:
    """The budget that the settings name; of a run that goes on the very one that it began with."""
    trust, serve = plan.trust, plan.serve
    if not trust.epsilon:
        return None
    times = trust.publications or serve.rounds
    rules = (
        (
            serve.mode == "sync" and not serve.max_staleness,
            "serve.max_staleness: under a budget an upload counts once, and in its own round",
            "mode sync, max_staleness 0",
        ),
        (
            serve.enrol in (None, "off"),
            f"serve.enrol: {serve.enrol}, but classes that devices bring are published as they are",
            "off, under a budget",
        ),
        (
            not plan.rollout.versions,
            "rollout.versions: under a budget no device says how well it classifies",
            "0: what is published is shown to all at once",
        ),
        (
            serve.min_agents > 1,
            "serve.min_agents: a budget is spent on few rounds, and one device would open them",
            "how many devices are to be in each",
        ),
        (
            recipe.traits.frozen or bool(times),
            "trust.publications: a budget has to be spent in a number of rounds",
            "or [serve] rounds",
        ),
        (
            bool(plan.contract.classes),
            "contract.classes: under a budget they are agreed on beforehand",
            "which classes a fleet has would tell of its samples",
        ),
    )
    for holds, words, hint in rules:
        if not holds:
            raise SettingError(words, hint)
    return _as_before(budget_of(trust.epsilon, trust.delta, trust.clip, times or 1), journal)


def _as_before(budget: Budget, journal: Journal) -> Budget:
    """With the ρ that was announced: another release may convert it to other last digits."""
    text = journal.meta("agreement")
    document = None if text is None else json.loads(text)["contract"].get("budget")
    before = None if document is None else from_plain(Budget, document)
    same = before is not None and vars(before) == {**vars(budget), "rho": before.rho}
    return before if before is not None and same else budget


def seen_through(contract: Contract, bundle: Path | None, data_dir: Path) -> Contract:
    """With features as wide as the extractor's that all devices see through."""
    width = archive.read(bundle or data_dir / RANDOM).document.get("embedding")
    if type(width) is not int:
        raise SettingError("the extractor's bundle does not say how wide its features are")
    return replace(contract, embedding=width)


def until_spent(
    rules: RoundRules, under: Private | None, contract: Contract, hyper: Any
) -> RoundRules:
    """Rounds as far as the last publication that is paid for."""
    if under is None:
        return rules
    last = 0
    while under.publications(Turn(contract, hyper, last)) < under.accountant.publications:
        last += 1
    return replace(rules, rounds=min(rules.rounds or last, last))
