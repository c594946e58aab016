"""From a configuration to what runs: data set, partition, contract, recipe, and every device's
network and data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.uploads.validation import Expected
from edge_agent.data.dataset import Ints
from edge_agent.data.sets import DataSet, load
from edge_agent.data.usage import Usage
from edge_agent.networks import backbones
from edge_agent.networks.backbones import Factory
from edge_agent.networks.net import natural
from edge_agent.networks.torch_env import resolve_device
from edge_agent.training.agent import Agent
from edge_agent.training.batches import LocalData, SampleTensors
from edge_agent.training.context import TrainingContext
from protofleet import registry
from protofleet.budget.accountant import budget_of
from protofleet.budget.private import Private, private
from protofleet.contract import Contract
from protofleet.errors import UsageError
from protofleet.recipe import Recipe, Turn
from protofleet.settings.fields import parse_pairs
from protofleet.util.seeds import generator
from simulators.run import masked, partitions
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import Partition, Shard

RUN_ID = "lab"
COMMON = 1000  # samples on which all devices are measured alike: enough for a point or two


@dataclass(frozen=True, eq=False)
class Supplied:
    """What a program brings itself, where a command names it."""

    data: DataSet | None = None
    shards: tuple[Shard, ...] = ()
    recipe: Recipe[Any] | None = None
    networks: Mapping[str, Factory] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Setup:
    """A run, ready to begin."""

    config: LabConfig
    data: DataSet
    partition: Partition
    contract: Contract
    recipe: Recipe[Any]
    hyper: Any
    backbones: Mapping[str, str]
    private: Private | None = None  # of a run under a budget: `recipe` is its own then
    supplied: Supplied = field(default_factory=Supplied)

    @property
    def agents(self) -> list[str]:
        """Every device, in the order of their names."""
        return [shard.agent for shard in self.partition.shards]

    @property
    def described(self) -> str:
        """Its devices and what they see with, in words: both follow from other settings."""
        size = " × ".join(map(str, self.contract.input.shape))
        networks = ", ".join(sorted(set(self.backbones.values())))
        return f"{len(self.agents)} devices, {self.contract.input.kind}s of {size}, {networks}"

    @property
    def usage(self) -> Usage:
        """What this run does with each row of its set."""
        shards = self.partition.shards
        return Usage.of(
            self.data,
            np.concatenate([rows for s in shards for rows in (s.train, s.validation)]),
            np.concatenate([s.test for s in shards]),
        )

    @property
    def expected(self) -> Expected:
        """What an upload must fit, as a coordinator holds it to."""
        admission = self.config.admission
        return Expected(self.contract.fleet, RUN_ID, self.recipe, self.contract, admission)

    def context(self) -> TrainingContext:
        """What one process trains with."""
        return TrainingContext(self.contract, self.recipe, self.hyper, self.supplied.networks)

    def agent(self, shard: Shard, context: TrainingContext) -> Agent:
        """One device with its own data; tested on its own samples or on everyone's."""
        kind = self.contract.input
        data = LocalData(
            SampleTensors.of(*self.training_samples(shard), kind),
            SampleTensors.of(*samples_of(self.data, shard, shard.validation), kind),
            SampleTensors.of(*self.test_samples(shard), kind),
        )
        return Agent(shard.agent, self.backbones[shard.agent], data, context)

    def training_samples(self, shard: Shard) -> tuple[NDArray[Any], Ints]:
        """What this device trains on, with labels."""
        if self.config.run.train_on == "own":
            return samples_of(self.data, shard, shard.train)
        parts = [samples_of(self.data, other, other.train) for other in self.partition.shards]
        x, y = np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
        # Its classes stay its own, and with them what it is asked for.
        chosen = np.isin(y, self.data.y[shard.train])
        return x[chosen], y[chosen]

    def common_samples(self) -> tuple[NDArray[Any], Ints] | None:
        """One test set for all devices, of everybody's test samples; None where theirs is that."""
        shards = self.partition.shards
        if self.config.run.test_on == "everyone" or len(shards) == 1:
            return None
        ends = np.cumsum([len(shard.test) for shard in shards])
        drawn = generator("lab", "common", self.config.run.seed).permutation(ends[-1])[:COMMON]
        of_each = np.split(np.sort(drawn), np.searchsorted(np.sort(drawn), ends[:-1]))
        parts = [
            samples_of(self.data, shard, shard.test[places - (end - len(shard.test))])
            for shard, places, end in zip(shards, of_each, ends, strict=True)
        ]
        return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])

    def test_samples(self, shard: Shard) -> tuple[NDArray[Any], Ints]:
        """What this device is tested on, with labels."""
        tested = self.partition.shards if self.config.run.test_on == "everyone" else (shard,)
        parts = [samples_of(self.data, other, other.test) for other in tested]
        return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def samples_of(data: DataSet, shard: Shard, rows: Ints) -> tuple[Any, Ints]:
    """Rows of the set as this device sees them, with their labels."""
    x = data.x[rows]
    # A set with domains of its own has their look in its images already.
    if shard.domain is not None and data.domains is None:
        x = partitions.apply_domain(x, shard.domain)
    return x, data.y[rows]


def prepare(config: LabConfig, supplied: Supplied | None = None) -> Setup:
    """Read the data, deal it out, and settle what the fleet agrees on."""
    supplied = supplied or Supplied()
    run = config.run
    recipe = supplied.recipe or registry.load(run.method)
    hyper = parse_pairs(recipe.hyper, config.settings)
    data = supplied.data or _data(run)
    if run.pixels == "unit":
        data = _from_0_to_1(data)
    dealt_by = run.seed if run.partition_seed is None else run.partition_seed
    if supplied.shards:
        partition = Partition("given", supplied.shards)
    else:
        partition = partitions.make(run.partition, data, run.agents, dealt_by, config.partition)
    agents = [shard.agent for shard in partition.shards]
    chosen = _backbones(run, recipe, data, agents, supplied.networks)
    contract = _contract(config, recipe, data, chosen, supplied.networks)
    under, contract = _private(config, recipe, Turn(contract, hyper, 1))
    turn: Turn[Any] = Turn(contract, hyper, 1)
    recipe = recipe if under is None else under.recipe
    if config.masks.secure_sum:
        _check_sums(config, recipe, turn)
    return Setup(config, data, partition, contract, recipe, hyper, chosen, under, supplied)


def _data(run: Run) -> DataSet:
    where = os.environ.get("PROTOFLEET_DATA")
    return load(
        run.dataset,
        data_dir=Path(where) if where else None,
        seed=run.seed,
        image_size=run.image_size or None,
    )


def _private(
    config: LabConfig, recipe: Recipe[Any], turn: Turn[Any]
) -> tuple[Private | None, Contract]:
    """The method under the run's budget, where it has one, and what is then agreed on."""
    options = config.budget
    if not options.epsilon:
        return None, turn.contract
    times = options.publications or config.run.rounds
    budget = budget_of(options.epsilon, options.delta, options.clip, times)
    under = private(recipe, turn, budget)
    if under.unit == "sample" and config.run.rounds < under.accountant.publications:
        raise UsageError(f"{recipe.name} under a budget publishes twice", "--rounds 2")
    masks = masked.terms(config) if config.masks.secure_sum else None
    return under, replace(turn.contract, budget=budget, masks=masks)


def _check_sums(config: LabConfig, recipe: Recipe[Any], turn: Turn[Any]) -> None:
    if not recipe.rooms(turn, masked.ceilings(config, config.run.agents)):
        raise UsageError(
            f"{recipe.name} sends more than sums: the coordinator must see each upload",
            "no --secure-sum with it",
        )


def _from_0_to_1(data: DataSet) -> DataSet:
    kind = data.input
    if kind.kind != "image":
        raise UsageError(f"{data.name} has no pixels", "--pixels unit is for images")
    channels = len(kind.mean)
    return replace(data, input=replace(kind, mean=(0.0,) * channels, std=(1.0,) * channels))


def _backbones(
    run: Run,
    recipe: Recipe[Any],
    data: DataSet,
    agents: list[str],
    networks: Mapping[str, Factory],
) -> dict[str, str]:
    named = backbones.of_device(run.backbone, recipe.traits.backbone, data.input)
    kinds = backbones.rotation(named, data.input)
    if len(set(kinds)) > 1 and not recipe.traits.mixed_backbones:
        words = f"{recipe.name} wants the same network on every device"
        raise UsageError(words, "it needs one backbone for all: name it with --backbone")
    for kind in kinds if run.backbone != "mixed" else ():
        natural(kind, data.input, networks)  # a name that is wrong is said before anything runs
    return {agent: kinds[i % len(kinds)] for i, agent in enumerate(agents)}


def _contract(
    config: LabConfig,
    recipe: Recipe[Any],
    data: DataSet,
    chosen: Mapping[str, str],
    networks: Mapping[str, Factory],
) -> Contract:
    run = config.run
    kinds = sorted(set(chosen.values()))
    dim, hidden = natural(kinds[0], data.input, networks)
    if recipe.traits.frozen:
        hidden = ()
    if len(kinds) > 1:  # different networks meet in one embedding size and one form of classifier
        dim, hidden = 128, ()
    # A frozen extractor that every device drew for itself would make embeddings that mean nothing
    # to each other.
    frozen = run.freeze or recipe.traits.frozen
    common_by_default = recipe.traits.common_start or frozen
    common = common_by_default if run.common_start == "auto" else run.common_start == "yes"
    widths = recipe.traits.widths(run.embedding or dim, hidden)
    return Contract(
        fleet="lab",
        run=RUN_ID,
        seed=run.seed,
        classes=data.classes,
        input=data.input,
        embedding=widths.embedding,
        head_hidden=widths.head_hidden,
        neck=widths.neck,
        resize=run.resize,
        training=config.training,
        numerics=replace(config.numerics, device=resolve_device(config.numerics.device)),
        wire=run.wire,
        averaging=run.averaging,
        common_start=common,
        pretrained=run.weights,
        freeze=frozen,
        unit_embedding=run.unit_embedding,
        # A frozen method's classifier is rows of its own making, which are linear.
        head_relu=run.head_relu and not recipe.traits.frozen,
        unit_logits=run.unit_logits and not recipe.traits.frozen,
    )
