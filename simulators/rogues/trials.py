"""One rogue among some devices, or two that collude: how well the others' samples are told apart,
with and without a defence.
"""

# Theory of operation
#
# For each number of devices and each seed:
#
#   1. everyone honest, no defence    the accuracy that all else is held to. What the devices sent
#                                     in it, and nothing else, gives the limits (`uploads.measured`)
#   2. everyone honest, defended      what the defence costs
#   3. each attack, no defence        the usual limits of admission, the method as it comes
#   4. each attack, defended          measured limits, and the method's settings of defence
# Where a rogue makes a device diverge the run ends, and counts as nothing known.
#
# A rogue trains like the others and holds its share of the data; only what it says is forged, in
# every round. Accuracy is the mean over the other devices, each on its own test samples, after the
# last round; what it is compared with is the accuracy of the same devices when all were honest.
# An upload that is refused is no attack, so how many were admitted is counted. The last round's
# uploads are added up in other orders, too: the state's hash must be the same.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from coordinator.config import UploadLimits
from coordinator.uploads import measured
from coordinator.uploads.fuse import fuse_total, start_state
from protofleet.errors import FleetError
from protofleet.exchange.state import GlobalState
from protofleet.recipe import Turn
from protofleet.scoring import primary
from protofleet.statistics.counts import COUNTS
from protofleet.util.seeds import generator
from protofleet.values.sums import merge, merge_all
from simulators.rogues.attacks import (
    ATTACKS,
    COLLUDING,
    COVARIANCE,
    CREWS,
    MISJUDGED,
    SYBILS,
    counts,
)
from simulators.rogues.crew import MeasuredCrew, RogueCrew
from simulators.run.config import LabConfig
from simulators.run.rounds import one_round, opened, refusals
from simulators.run.setup import Setup, prepare
from simulators.run.workers import hire

HONEST = "honest"
ORDERS = 3  # in which the last round's uploads are added up once more
Accuracies = Mapping[str, float]  # by device


@dataclass(frozen=True)
class RogueTrial:
    """What came of one run: shares of the others' test samples that were told right."""

    agents: int
    seed: int
    attack: str
    defended: bool
    accuracy: float
    honest: float  # of the same devices, when all were honest and nothing was defended
    in_any_order: bool = True  # the last state's hash, whoever was heard first
    tried: int = 0
    admitted: int = 0
    failure: str = ""  # of the others: one that cannot train any more knows nothing


@dataclass(frozen=True)
class RoguePlan:
    """What is tried, on which fleets."""

    config: LabConfig  # its number of devices and its seed are replaced
    defence: tuple[str, ...]  # settings of the method
    agents: Sequence[int]
    seeds: Sequence[int]
    attacks: Sequence[str] = (*ATTACKS, *CREWS)
    margin: float = measured.MARGIN
    undefended: bool = True  # attack without a defence, too
    workers: int = 1


def run(plan: RoguePlan, watch: Callable[[RogueTrial], None]) -> list[RogueTrial]:
    """Everything, one after the other."""
    trials = []
    for agents in plan.agents:
        for seed in plan.seeds:
            for trial in _fleet(plan, agents, seed):
                trials.append(trial)
                watch(trial)
    return trials


def _fleet(plan: RoguePlan, agents: int, seed: int) -> Iterator[RogueTrial]:
    run = replace(plan.config.run, agents=agents, seed=seed, eval_every=plan.config.run.rounds)
    plain = replace(plan.config, run=run)
    honest, limits, names = _honest(prepare(plain), plan)
    spreads = limits.trace < UploadLimits().trace  # somebody sent one
    nothing = {COVARIANCE: not spreads, MISJUDGED: COUNTS not in names}
    defended = replace(plain, settings=(*plain.settings, *plan.defence), admission=limits)

    def trial(config: LabConfig, attack: str) -> RogueTrial:
        setup, guarded = prepare(config), config is defended
        several = {HONEST: 0, COLLUDING: 2, SYBILS: 2 * agents // 5}
        rogues = setup.agents[: several.get(attack, 1)]
        lie = {**ATTACKS, **CREWS}.get(attack, counts)
        crew = RogueCrew(hire(setup, plan.workers), setup, rogues, lie)
        held_to = fmean(own for agent, own in honest.items() if agent not in rogues)
        others, same, failure = 0.0, True, ""
        try:
            last, same = _last(setup, crew)
            others = fmean(last.values())
        except FleetError as error:
            failure = error.words
        counts_of = same, crew.tried, crew.admitted, failure
        return RogueTrial(agents, seed, attack, guarded, others, held_to, *counts_of)

    own = fmean(honest.values())
    yield RogueTrial(agents, seed, HONEST, False, own, own)
    yield trial(defended, HONEST)
    for attack in plan.attacks:
        if nothing.get(attack):
            continue
        if plan.undefended:
            yield trial(plain, attack)
        yield trial(defended, attack)


def _honest(setup: Setup, plan: RoguePlan) -> tuple[Accuracies, UploadLimits, frozenset[str]]:
    """How each device does when nobody lies; what limits follow from what was sent, and the names
    of its parts.
    """
    crew = MeasuredCrew(hire(setup, plan.workers))
    accuracies, _ = _last(setup, crew)
    by_device = {agent: measured.largest(own) for agent, own in crew.figures.items()}
    return accuracies, measured.limits(by_device, plan.margin), frozenset(crew.names)


def _last(setup: Setup, crew: MeasuredCrew | RogueCrew) -> tuple[Accuracies, bool]:
    """All rounds; each device's accuracy after the last, by the evaluator the run is known by, and
    whether its state has the same hash in any order of arrival.
    """
    same = True
    try:
        state: GlobalState = start_state(setup.recipe, Turn(setup.contract, setup.hyper, 0))
        crew.receive(0, state)
        for round in range(1, setup.config.run.rounds + 1):
            before = state
            state, row = one_round(setup, crew, state, round)
        turn = Turn(setup.contract, setup.hyper, setup.config.run.rounds)
        if setup.recipe.talks(turn):
            hashes = {_shuffled(setup, crew.sent, turn, before, n) for n in range(ORDERS)}
            same = hashes == {state.sha256}
    finally:
        crew.close()
    name = primary(row.accuracy)
    return {agent: own[name] for agent, own in row.per_agent.items() if name in own}, same


def _shuffled(
    setup: Setup, messages: Mapping[str, bytes], turn: Turn[Any], before: GlobalState, number: int
) -> str:
    """The hash of what comes of these, in another order, as two totals that are merged."""
    sent = [opened(setup, message) for message in messages.values()]
    refused = refusals(setup, turn, before, sent)
    uploads = [upload for upload in sent if upload.agent not in refused]
    order = generator(setup.contract.seed, "order", number).permutation(len(uploads))
    folds = [setup.recipe.fold(turn, uploads[at], 1) for at in order]
    halves = merge_all(folds[::2]), merge_all(folds[1::2])
    return fuse_total(setup.recipe, turn, merge(*halves), before).sha256
