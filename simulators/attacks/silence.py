"""What it costs `fleet` that a device says less than it could: nothing of a class of few samples,
nothing again for few new ones, nothing of how its samples spread.
"""

# Theory of operation
#
# Each of the cross's tasks is run with everything said (`minimum=1`), and then with less of it, on
# the same devices, seed by seed. `fleet` has said all of its samples after one round, and after two
# how well that classifies.
#
#   way              settings                         the samples that are spoken of
#   everything       minimum=1                        all
#   minimum          as it comes                      all of a class of five or more
#   one by one       as it comes                      what was said last, had they come one by one
#   off              covariance=off                   as `minimum`
#
# In the laboratory samples do not come one by one, so nothing is ever said again there. What
# `changed` costs is shown at its worst: each device's samples come in their order, the rule of the
# field (`contributing.rules`) says after each which are spoken of, and the others are not there.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edge_agent.contributing.rules import SpeechRules, to_say
from protofleet.values.prototypes import Ints
from simulators.cross.cross import FLEET, TASKS, Task, config_of
from simulators.papers.cell import changed
from simulators.run.partitions import Shard
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import Setup, prepare
from simulators.run.workers import Local

EVERYTHING, ONE_BY_ONE = "everything", "one by one"
WAYS = {
    EVERYTHING: ("minimum=1",),
    "minimum": (),
    ONE_BY_ONE: (),
    "off": ("covariance=off",),
}


@dataclass(frozen=True)
class SilentRun:
    """One task, said in one way: the accuracy that it is known by, and the share of the training
    samples that were spoken of.
    """

    task: str
    seed: int
    way: str
    accuracy: float
    spoken: float


def measure(
    tasks: Sequence[str],
    seeds: int,
    rounds: int,
    workers: int,
    watch: Callable[[SilentRun], None],
) -> list[SilentRun]:
    """Every way on every one of these tasks, seed by seed."""
    runs = []
    for seed in range(seeds):
        for task in TASKS:
            for way in WAYS if task.name in tasks or not tasks else ():
                runs.append(silent(task, seed, way, rounds, workers))
                watch(runs[-1])
    return runs


def silent(task: Task, seed: int, way: str, rounds: int, workers: int) -> SilentRun:
    """One of them."""
    config = config_of(task, replace(FLEET, settings=WAYS[way]), seed)
    setup = prepare(changed(config, rounds=rounds, eval_every=rounds))
    least, again = setup.hyper.minimum, setup.hyper.changed
    rules = SpeechRules(least, again if way == ONE_BY_ONE else 1)
    shards = tuple(_lagging(setup, shard, rules) for shard in setup.partition.shards)
    every = sum(len(shard.train) for shard in setup.partition.shards)
    if way == ONE_BY_ONE:
        setup = replace(setup, partition=replace(setup.partition, shards=shards))
        workers = 1  # others would deal the samples out anew
    outcome = run(setup, LabOptions(Local(workers)), lambda row: None)
    accuracy = outcome.rows[-1].accuracy[task.compared["prototype"]]
    return SilentRun(task.name, seed, way, accuracy, sum(len(s.train) for s in shards) / every)


def _lagging(setup: Setup, shard: Shard, rules: SpeechRules) -> Shard:
    labels = setup.data.y[shard.train]
    own = [shard.train[labels == label] for label in np.unique(labels)]
    return replace(shard, train=np.concatenate([_spoken(rows, rules) for rows in own]))


def _spoken(rows: Ints, rules: SpeechRules) -> Ints:
    """Of one class's samples, which come one by one, those that it was last said with."""
    keys, before = tuple(map(str, rows.tolist())), dict[str, tuple[str, ...]]()
    for number in range(1, len(keys) + 1):
        before = to_say({"it": keys[:number]}, before, rules)
    return rows[: len(before.get("it", ()))]
