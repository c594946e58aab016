"""Images and their vectors under a fleet's extractor: one half public, where an attacker learns,
the other private, which devices hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from edge_agent.training.batches import SampleTensors, blocks
from protofleet.errors import DataError
from protofleet.statistics.contribution import Grid
from protofleet.util import seeds
from protofleet.values.prototypes import Floats, Ints
from simulators.attacks.similarity import Images
from simulators.run.config import LabConfig
from simulators.run.setup import prepare


@dataclass(frozen=True, eq=False)
class Crowd:
    """Some people's samples."""

    images: Images
    features: Floats
    labels: Ints

    def of_class(self, c: int) -> Ints:
        """The rows of a class."""
        return np.flatnonzero(self.labels == c)

    def at(self, rows: Ints) -> Crowd:
        """Some of them."""
        return Crowd(self.images[rows], self.features[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class Population:
    """Both halves, and the grid that the lineage would have."""

    public: Crowd
    private: Crowd
    grid: Grid
    classes: int

    def enough_for(self, samples: int) -> bool:
        """Whether devices can have so many of any class, with strangers beside them."""
        counts = np.bincount(self.private.labels, minlength=self.classes)
        return bool(3 * samples <= counts.min())

    @property
    def width(self) -> int:
        """d."""
        return int(self.public.features.shape[1])


def population(config: LabConfig, most: int) -> Population:
    """Of a data set, under the extractor that a fleet of this configuration has."""
    setup = prepare(config)
    contract, data = setup.contract, setup.data
    if contract.input.kind != "image" or not contract.freeze:
        raise DataError("the attacks are on images under a frozen extractor", "--method fleet")
    rows = seeds.generator(contract.seed, "population").permutation(len(data.y))[:most]
    samples = SampleTensors.of(data.x[rows], data.y[rows], contract.input)
    net = setup.agent(setup.partition.shards[0], setup.context()).network().eval()
    with torch.inference_mode():
        features = np.concatenate(
            [net(x)[1].numpy() for x in blocks(samples, contract.input, contract.numerics)]
        )
    images = np.asarray(data.x[rows], np.float32) / np.float32(255)
    labels, half = np.asarray(data.y[rows], np.int64), len(rows) // 2
    everyone = Crowd(images, features, labels)
    return Population(
        everyone.at(np.arange(half)),
        everyone.at(np.arange(half, len(rows))),
        Grid.over(float(np.abs(features[:half]).max())),
        contract.n_classes,
    )
