"""Two cases that a fleet meets in the field: devices that come late with few samples, and a class
only one has seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from coordinator.uploads.fuse import start_state
from edge_agent.training.evaluate import Tallies
from protofleet.recipe import Turn
from protofleet.values.prototypes import Ints
from simulators.cross.cross import FLEET, NO_PRIOR, PAPERS, TASKS, Contender, Task, config_of
from simulators.run.partitions import Partition, Shard
from simulators.run.rounds import one_round
from simulators.run.setup import Setup, prepare
from simulators.run.workers import Crew, hire

LATE, SHOTS, AFTER = (
    4,
    20,
    (0, 1, 5),
)  # devices that come late, their samples a class, and when they are looked at
CONTENDERS = (FLEET, NO_PRIOR, *PAPERS)
Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Newcomer:
    """What is changed in what devices hold, and what is measured of each of a method's
    classifiers.
    """

    name: str
    title: str
    task: Task
    deal: Callable[[Setup], Partition]
    measure: Callable[[Setup, Crew], Mapping[str, Numbers]]


def run(case: Newcomer, contender: Contender, seed: int, out: Path) -> Mapping[str, Numbers]:
    """What the case measures, by classifier; kept in a small file once it is there."""
    path = out / case.name / contender.name / f"{seed}.json"
    if not path.exists():
        setup = prepare(config_of(case.task, contender, seed))
        setup = replace(setup, partition=case.deal(setup))
        crew = hire(setup, 1)
        try:
            measured = case.measure(setup, crew)
        finally:
            crew.close()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(measured))
    numbers: Mapping[str, Numbers] = json.loads(path.read_text())
    return numbers


def _late_with_few(setup: Setup) -> Partition:
    """The last devices keep some samples a class."""
    shards = setup.partition.shards
    late = [replace(shard, train=_some(setup, shard)) for shard in shards[-LATE:]]
    return replace(setup.partition, shards=(*shards[:-LATE], *late))


def _some(setup: Setup, shard: Shard) -> Ints:
    labels = setup.data.y[shard.train]
    return np.concatenate([shard.train[labels == c][:SHOTS] for c in np.unique(labels)])


def _lateness(setup: Setup, crew: Crew) -> Mapping[str, Numbers]:
    """The late devices' accuracy as they come, with the fleet's state alone, and after rounds of
    their own.
    """
    late, rounds = setup.agents[-LATE:], setup.config.run.rounds
    numbers: dict[str, dict[str, float]] = {}
    for round in _rounds(setup, crew, setup.agents[:-LATE], rounds + max(AFTER)):
        if round - rounds in AFTER:
            for name, accuracy in _accuracies(crew.evaluate(round), late).items():
                numbers.setdefault(name, {})[f"after {round - rounds}"] = accuracy
    return numbers


def _accuracies(tallies: Mapping[str, Tallies], agents: Sequence[str]) -> dict[str, float]:
    by_evaluator: dict[str, list[float]] = {}
    for agent in agents:
        for name, tally in tallies[agent]["test"].items():
            if tally.accuracy is not None:
                by_evaluator.setdefault(name, []).append(tally.accuracy)
    return {name: fmean(accuracies) for name, accuracies in by_evaluator.items()}


def _rounds(setup: Setup, crew: Crew, early: Sequence[str], rounds: int) -> Iterator[int]:
    """Rounds with the early devices for as long as the task has them, then with all, none
    evaluated.
    """
    state = start_state(setup.recipe, Turn(setup.contract, setup.hyper, 0))
    crew.receive(0, state)
    own = setup.config.run
    # A round that evaluates costs more than one that trains, and only a few are looked at: no round
    # is a multiple of so large a number, and none is the last.
    quiet = replace(
        setup, config=replace(setup.config, run=replace(own, eval_every=1 << 30, rounds=1 << 30))
    )
    for round in range(1, rounds + 1):
        state, _ = one_round(
            quiet, crew, state, round, early if round <= own.rounds else setup.agents
        )
        yield round


def _seen_by_one(setup: Setup) -> Partition:
    """The class that most devices hold is left to the one that has most of it; their test samples
    stay.
    """
    # The one most devices hold: taking it from them changes the most, and there are most test
    # samples to see by.
    rare, keeper = rare_class(setup.partition, setup.data.y, len(setup.data.classes))
    y = setup.data.y
    shards = [
        s if s.agent == keeper else replace(s, train=s.train[y[s.train] != rare])
        for s in setup.partition.shards
    ]
    return replace(setup.partition, shards=tuple(s for s in shards if len(s.train)))


def rare_class(partition: Partition, y: Ints, n_classes: int) -> tuple[int, str]:
    """Which class is made rare, and who keeps it."""
    counts = partition.table(y, n_classes, "train")
    rare = int((counts > 0).sum(0).argmax())
    return rare, partition.shards[int(counts[:, rare].argmax())].agent


def _rareness(setup: Setup, crew: Crew) -> Mapping[str, Numbers]:
    """At devices that never saw it: how much of the rare class they know, and of the others; among
    all classes.
    """
    holders = setup.partition.table(setup.data.y, len(setup.data.classes), "train")
    # Found again by its being held by one device; a class that nobody holds is not meant.
    rare = int(np.argmin(np.where(holders.sum(0), (holders > 0).sum(0), 1 << 30)))
    keeper = setup.partition.shards[int(holders[:, rare].argmax())].agent
    rounds = setup.config.run.rounds
    for _ in _rounds(setup, crew, setup.agents, rounds):
        pass
    tallies = crew.evaluate(rounds)
    numbers: dict[str, Numbers] = {}
    for name in ("prototype_all_classes", "head"):
        tested = [
            t["test"][name]
            for agent, t in tallies.items()
            if agent != keeper and name in t.get("test", {})
        ]
        if tested:
            right, of = np.sum([t.correct for t in tested], 0), np.sum([t.total for t in tested], 0)
            others = np.delete(right, rare).sum() / np.delete(of, rare).sum()
            numbers[name] = {
                "the rare class": float(right[rare] / of[rare]),
                "the others": float(others),
            }
    return numbers


_TASKS = {task.name: task for task in TASKS}
CASES = (
    Newcomer(
        "late",
        f"{LATE} devices that come late, with {SHOTS} samples a class",
        _TASKS["cifar10"],
        _late_with_few,
        _lateness,
    ),
    Newcomer(
        "rare",
        "A class that one device alone has seen, at the others",
        _TASKS["dir-0.5"],
        _seen_by_one,
        _rareness,
    ),
)
