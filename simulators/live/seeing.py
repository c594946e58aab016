"""Devices of the laboratory that see through a fleet's bundle, as its own do, and train nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edge_agent.contributing.learner import FeatureLearner
from edge_agent.inference.classifier import Classifier
from protofleet.contract import Contract
from protofleet.recipe import Recipe, Turn
from protofleet.values.prototypes import Parts
from simulators.run.setup import Setup


@dataclass(eq=False)
class SeeingDevice:
    """As much of a device as a schedule drives."""

    recipe: Recipe[Any]
    contract: Contract
    hyper: Any
    learner: FeatureLearner
    state: Parts = field(default_factory=dict)

    def receive(self, round: int, shared: Parts, own: Parts) -> None:
        """The state to answer by."""
        self.state = {**shared, **own}

    def work(self, round: int) -> Parts:
        """What it says in this round."""
        turn = Turn(self.contract, self.hyper, round, self.learner.agent)
        return self.recipe.summarise(turn, self.learner, self.state)


def devices(setup: Setup, contract: Contract, bundle: Path) -> dict[str, SeeingDevice]:
    """All of a run's, by their names."""
    classifier, everybody = Classifier(bundle), {}
    for shard in setup.partition.shards:
        x, y = setup.training_samples(shard)
        # One by one, as a device looks at them: in a block a feature's last bits are others.
        features = np.stack([classifier.embed(sample[None])[0] for sample in x])
        learner = FeatureLearner(shard.agent, features, y)
        everybody[shard.agent] = SeeingDevice(setup.recipe, contract, setup.hyper, learner)
    return everybody
