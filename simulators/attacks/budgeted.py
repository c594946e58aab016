"""What a budget costs in accuracy and leaves of membership: one fleet's contributions without noise
and at several ε, through the very functions of a run.
"""

# Theory of operation
#
# Samples are features, so that a fleet of 50,000 images takes seconds. They are dealt out to
# devices at random; each sends what `fleet` sends, the coordinator's noise is added, and the state
# that comes of it classifies samples that no device has.
#
# The attacker sees the state: means, counts and covariance, as devices receive them. It has samples
# of its own (public) and is asked of others whether they were in. Two scores, of which the better
# counts:
#
#   means        how far a class's mean leans toward the sample (`membership`, 3)
#   covariance   how much less the sample stands out by the state's covariance than by the public's
#
# At ε an attacker of any kind has TPR ≤ e^ε FPR + δ. What these two have is what is shown.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edge_agent.contributing.learner import FeatureLearner
from protofleet import registry
from protofleet.budget.accountant import budget_of
from protofleet.budget.noise import seeded
from protofleet.budget.private import of_contract
from protofleet.contract import Contract, Input
from protofleet.errors import DataError
from protofleet.exchange import learned
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fleet
from protofleet.recipe import Recipe, Turn
from protofleet.statistics.contribution import Matrix
from protofleet.values.prototypes import Floats, Head, Ints
from protofleet.values.sums import Partial, merge, merge_all
from simulators.attacks.population import population
from simulators.photos.measures import auroc
from simulators.run.config import LabConfig, Run

_RIDGE = 0.01
_MOST = 70_000  # images of a set


@dataclass(frozen=True, eq=False)
class Sample:
    """Features with labels."""

    features: Floats
    labels: Ints


@dataclass(frozen=True, eq=False)
class Dealt:
    """Whose samples are in, whose are not, and what the attacker has besides."""

    members: Sample
    strangers: Sample
    public: Sample
    classes: int


@dataclass(frozen=True)
class Spent:
    """At one ε: 0 is without noise."""

    epsilon: float
    spent: float  # by the accountant, after the last publication
    accuracy: float  # of the strangers
    area: float  # of membership, by the better score
    by_mean: float
    by_covariance: float


def of_file(path: Path, samples: int, seed: int) -> Dealt:
    """Of features in a file (`f`, `y`): so many members, and of the rest half to the public; 0: as
    many as leave a fifth.
    """
    with np.load(path) as file:
        features, labels = file["f"], np.asarray(file["y"], np.int64)
    return dealt(np.asarray(features, np.float32), labels, samples, seed)


def of_images(name: str, samples: int, seed: int) -> Dealt:
    """Of a data set's images under the extractor that a fleet has which names none."""
    people = population(LabConfig(Run(method="fleet", dataset=name)), _MOST)
    halves = people.public, people.private
    features = np.concatenate([half.features for half in halves])
    return dealt(features, np.concatenate([half.labels for half in halves]), samples, seed)


def dealt(features: Floats, labels: Ints, samples: int, seed: int) -> Dealt:
    """Members, and of the rest half strangers and half the public's, at most 10,000 of each."""
    order = np.random.default_rng(seed).permutation(len(labels))
    inside = samples or len(order) * 4 // 5
    half = min(10_000, (len(order) - inside) // 2)
    if half < 20:
        raise DataError(f"{len(order)} samples, of which {inside} leave too few strangers")
    cuts = (order[:inside], order[inside : inside + half], order[-half:])
    members, strangers, public = (Sample(features[rows], labels[rows]) for rows in cuts)
    return Dealt(members, strangers, public, int(labels.max()) + 1)


def measured(
    task: Dealt, epsilons: Sequence[float], delta: float, clip: float, seed: int, devices: int = 10
) -> list[Spent]:
    """Each ε on the same devices."""
    width = task.members.features.shape[1]
    names = tuple(f"class {c}" for c in range(task.classes))
    contract = Contract("f", "r", seed, names, Input("vector", (width,)), width)
    rows = np.array_split(np.arange(len(task.members.labels)), devices)
    crew = []
    for at, mine in enumerate(rows):
        own = task.members.features[mine], task.members.labels[mine]
        crew.append(FeatureLearner(f"d{at}", *own))
    budgets = (budget_of(e, delta, clip, 2) if e else None for e in epsilons)
    return [_at(task, replace(contract, budget=budget), crew) for budget in budgets]


def _at(task: Dealt, contract: Contract, crew: Sequence[FeatureLearner]) -> Spent:
    recipe, hyper = registry.load("fleet"), fleet.Hyper()
    under = of_contract(recipe, contract, hyper)
    epsilon = 0.0 if contract.budget is None else contract.budget.epsilon
    recipe = recipe if under is None else under.recipe
    state = GlobalState()
    for round in (1,) if under is None else (1, 2):
        turn = Turn(contract, hyper, round)
        total = _total(recipe, turn, crew, state)
        if under is not None:
            total = merge(total, under.noise(turn, state, seeded(turn.rng("noise"))))
        state = recipe.fuse(turn, total, state)
    spent = 0.0 if under is None else under.spent(Turn(contract, hyper, 2))
    head = state.shared.get(learned.HEAD)
    if not isinstance(head, Head):  # noise hid every class
        return Spent(epsilon, spent, 0.0, 0.5, 0.5, 0.5)
    by_mean, by_covariance = _areas(task, state)
    scores = task.strangers.features @ head.weight.T + head.bias
    right = head.classes[scores.argmax(1)] == task.strangers.labels
    areas = max(by_mean, by_covariance), by_mean, by_covariance
    return Spent(epsilon, spent, float(right.mean()), *areas)


def _total(
    recipe: Recipe[fleet.Hyper],
    turn: Turn[fleet.Hyper],
    crew: Sequence[FeatureLearner],
    state: GlobalState,
) -> Partial:
    partials = []
    for device in crew:
        device.memory.clear()
        parts = recipe.summarise(turn, device, state.shared)
        partials.append(recipe.fold(turn, Upload(device.agent, turn.round, "", parts), 1))
    return merge_all(partials)


def _areas(task: Dealt, state: GlobalState) -> tuple[float, float]:
    """Of membership, by means and by the covariance."""
    of = learned.moments(state.shared)
    table = np.zeros((task.classes, of.means.shape[1]))
    table[of.classes] = of.means
    usual = np.zeros_like(table)
    for c in range(task.classes):
        rows = task.public.features[task.public.labels == c]
        usual[c] = rows.mean(0) if len(rows) else table[c]
    off = task.public.features - usual[task.public.labels]
    public = _inverse(off.T @ off / len(off))
    lean = (table - usual) @ public

    def by_mean(of_whom: Sample) -> Matrix:
        return np.asarray(
            ((of_whom.features - usual[of_whom.labels]) * lean[of_whom.labels]).sum(1), np.float64
        )

    state_inverse = _inverse(of.within)

    def by_covariance(of_whom: Sample) -> Matrix:
        at = of_whom.features - table[of_whom.labels]
        return -_quadratic(at, state_inverse) / _quadratic(
            of_whom.features - usual[of_whom.labels], public
        )

    few = Sample(task.members.features[:10_000], task.members.labels[:10_000])
    return (
        auroc(by_mean(few), by_mean(task.strangers)),
        auroc(by_covariance(few), by_covariance(task.strangers)),
    )


def _inverse(matrix: Matrix) -> Matrix:
    added = _RIDGE * np.trace(matrix) / len(matrix)
    return np.asarray(np.linalg.inv(matrix + added * np.eye(len(matrix))))


def _quadratic(rows: Matrix, inverse: Matrix) -> Matrix:
    return np.asarray(np.einsum("nd,nd->n", rows @ inverse, rows), np.float64)
