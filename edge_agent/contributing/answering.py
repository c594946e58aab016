"""A round answered by what a device sees through the fleet's bundle: nothing is trained, and no
torch is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from edge_agent.config import DataSection
from edge_agent.contributing.learner import FeatureLearner
from edge_agent.contributing.statement import Statement
from edge_agent.data import labelled
from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from protofleet.values.prototypes import Ints


def learner(
    agent: str, bundle: Path, data: DataSection, data_dir: Path | None, classes: tuple[str, ...]
) -> tuple[FeatureLearner, Mapping[str, int]]:
    """This device with the features of its labelled samples, and how many are left out because the
    fleet has no such class; what was seen before is not looked at again.
    """
    opened = open_bundle(bundle)
    statement, samples = (
        Statement(bundle, opened),
        partial(labelled.samples, data, data_dir, opened.manifest.input),
    )
    if statement.lacks(samples()):
        statement.embed(samples(), Classifier(bundle).embed)
    features, names = statement.seen(samples())
    places = {name: place for place, name in enumerate(classes)}
    ids: Ints = np.array([places.get(name, -1) for name in names], np.int64)
    others = Counter(name for name in names if name not in places)
    return FeatureLearner(agent, features[ids >= 0], ids[ids >= 0]), others
