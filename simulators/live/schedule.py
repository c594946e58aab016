"""The laboratory by a journal's own schedule: who trained on which state, and which uploads were
fused in which cut.

A live run in which devices came late, were lost or were not asked is no whole run of the
laboratory's, but it is still a function of its schedule. So it is held to this: the same devices,
driven by the same schedule in memory, end in the same states, to the bit.
"""

# Theory of operation
#
# Why can a run over a network, with losses and delays, be held to a hash? Because what a fleet
# learns depends on few things, and time is not one of them:
#
#     what                     is a function of
#     a device's upload        its memory, the round, the state it was given
#     its memory afterwards    the same
#     a cut's total            which uploads it counts, and with which weights
#     the next state           the total and the state before it
#
# A device draws everything random from seed, round and name. Sums are exact, so the order in which
# uploads came in cannot be seen in a total. State and uploads pass the codec on both sides, here
# by `as_received`, so that nobody computes with digits that the others never had.
#
# Under a budget there is one thing more, noise, which nobody can draw again: the journal has it, by
# round, and it is added where the coordinator added it. So a budget's run is held to the laboratory
# like any other, with the journal's draws. Where sums are masked, too, each device added its own,
# and no disk has it: it is what a group's total has beyond the laboratory's sums of the same
# devices, and refused where that is none, or more than all of them together may have drawn.
#
# What remains is the schedule, and the journal holds it: for every round the state it was opened
# on (`base_round`), who trained in it (whose upload is there, whatever became of it), and what its
# cut counted. Following it is three rules:
#
# 1. Rounds in order. A device trains on the state of the round's `base_round`, even where a newer
#    one was out by then.
# 2. A cut folds what it counted, each upload by the turn of the round it was made in, which for a
#    late one is not the cut's.
# 3. The state of a round that was never cut, or in which the recipe does not talk, is none; the
#    next round builds on the one before.
#
# The trap: a device that trained and whose upload never reached the journal has a memory that no
# schedule explains. Then the hash may differ, and rightly: that training was lost. Devices keep an
# upload until it has a receipt, and a receipt follows the commit, so it takes a lost disk.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from coordinator.journal.journal import Journal
from coordinator.service.build import agreed
from coordinator.service.extractors import RANDOM
from coordinator.uploads import assembly
from coordinator.uploads.fuse import fuse_total, noised, start_state
from edge_agent.training.context import settle
from protofleet import registry, wire
from protofleet.budget.clipping import POINT
from protofleet.budget.private import of_contract
from protofleet.budget.released import beyond, noise_of
from protofleet.contract import Contract
from protofleet.errors import FleetError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.recipe import Recipe, Turn
from protofleet.values.prototypes import Parts
from protofleet.values.sums import Partial, Sum, merge
from simulators.run.setup import Setup

FAR = 16.0  # times σ: so far nobody draws


@dataclass(frozen=True)
class Planned:
    """One round: who trained in it on the state that came out of `base_round`, and what its cut
    counted.

    `counted` holds (round, agent, weight) of every upload in the cut; it is none for a round that
    was never cut.
    """

    round: int
    base_round: int
    trained: tuple[str, ...]
    counted: tuple[tuple[int, str, int], ...] | None
    talks: bool
    failed: bool = False  # nothing came of its cut: the state stayed


class ScheduledDevice(Protocol):
    """As much of an agent as a schedule needs."""

    def receive(self, round: int, shared: Parts, own: Parts) -> None: ...
    def work(self, round: int) -> Parts: ...


def read(journal: Journal) -> list[Planned]:
    """What a journal says of its run, late uploads and rounds without exchange included."""
    plan = []
    for opened in journal.rounds():
        cut = journal.cut(opened.round)
        trained = tuple(upload.agent for upload in journal.uploads(opened.round))
        counted = None if cut is None else cut.counted
        failed = cut is not None and bool(cut.failed)
        plan.append(
            Planned(opened.round, opened.base_round, trained, counted, opened.talks, failed)
        )
    return plan


def undisturbed(
    recipe: Recipe[Any], contract: Contract, hyper: Any, agents: Sequence[str], rounds: int
) -> list[Planned]:
    """The schedule of a run in which everyone answers in every round."""
    plan, base_round = [], 0
    for round in range(1, rounds + 1):
        talks = recipe.talks(Turn(contract, hyper, round))
        plan.append(
            Planned(
                round,
                base_round,
                tuple(agents),
                tuple((round, agent, 1) for agent in sorted(agents)),
                talks,
            )
        )
        base_round = round if talks else base_round
    return plan


# What was added to a round's total, of which these are the sums, after this state.
Noise = Callable[[int, Partial, GlobalState], Partial | None]


def no_noise(round: int, plain: Partial, before: GlobalState) -> Partial | None:
    """Where there is no budget."""
    return None


def noise_in(journal: Journal) -> Noise:
    """Of a run under a budget."""
    contract, recipe, hyper = agreed(journal)
    under = of_contract(registry.load(recipe.name), contract, hyper)

    def masked(round: int, plain: Partial, before: GlobalState) -> Partial | None:
        assert under is not None  # it is asked under a budget alone
        turn = Turn(contract, hyper, round)
        found = assembly.total(journal, recipe, turn)
        rest, mechanism = beyond(found, plain), under.stage(turn, before)
        for name, steps in rest.arrays.items():
            widest = max(mechanism.scales(name)) * 2.0**POINT * _there(plain) ** 0.5
            if not np.any(steps) or np.abs(steps).max() > FAR * widest:
                raise FleetError(f"round {round}: {name} has other noise than devices add")
        return noise_of(rest)

    if contract.budget is None or contract.masks is None:
        return lambda round, plain, before: journal.noise(round)
    return masked


def _there(plain: Partial) -> int:
    return max(int(one.weights.max(initial=1)) for one in plain.values() if isinstance(one, Sum))


def follow(
    recipe: Recipe[Any],
    contract: Contract,
    hyper: Any,
    plan: Sequence[Planned],
    devices: Mapping[str, ScheduledDevice],
    noise: Noise = no_noise,
) -> dict[int, str]:
    """The hash of the state after every round that ended in one; the start is round 0."""

    def turn(round: int) -> Turn[Any]:
        return Turn(contract, hyper, round)

    states: dict[int, GlobalState] = {0: start_state(recipe, turn(0))}
    uploads: dict[tuple[int, str], Upload] = {}
    before = states[0]
    for step in plan:
        base = states.get(step.base_round)
        if base is None:
            raise FleetError(
                f"round {step.round} builds on round {step.base_round}, which ended in no state"
            )
        for agent in step.trained:
            devices[agent].receive(step.base_round, base.shared, base.for_agent(agent))
            parts = wire.as_received(
                devices[agent].work(step.round), contract.wire, recipe.precision
            )
            uploads[step.round, agent] = Upload(agent, step.round, base.base, parts)
        if step.failed:
            states[step.round] = before
        if step.failed or step.counted is None or not step.talks:
            continue
        total: Partial = {}
        for round, agent, weight in step.counted:
            total = merge(total, recipe.fold(turn(round), uploads[round, agent], weight))
        if contract.budget is not None:
            total = noised(total, noise(step.round, total, before))
        before = states[step.round] = fuse_total(recipe, turn(step.round), total, before)
    return {round: state.sha256 for round, state in states.items()}


def of_run(setup: Setup, data_dir: Path) -> dict[int, str]:
    """The states that a laboratory's own devices come to by the schedule of the journal in this
    directory, and by its noise where the run had a budget: the one thing that was drawn by nobody's
    seed.
    """
    settle(setup.contract.numerics)
    journal = Journal.read(data_dir)
    try:
        contract, recipe, hyper = agreed(journal)
        plan, devices = read(journal), _devices(setup, contract, data_dir)
        return follow(recipe, contract, hyper, plan, devices, noise_in(journal))
    finally:
        journal.close()


def _devices(setup: Setup, contract: Contract, data_dir: Path) -> dict[str, ScheduledDevice]:
    """The run's own, as a fleet had them: where nothing is trained they see through its bundle."""
    if not setup.recipe.traits.frozen:
        context = setup.context()
        return {shard.agent: setup.agent(shard, context) for shard in setup.partition.shards}
    from simulators.live import seeing

    return {**seeing.devices(setup, contract, data_dir / RANDOM)}
