"""A bundle that knows two made-up classes, and pictures of them, for tests of cameras."""

import numpy as np

from edge_agent.data import images
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from protofleet import wire
from protofleet.exchange import published
from protofleet.util.files import write_whole
from tests.knowing import knowing
from tests.networks import SIDE, extractor_bundle, pictures


def scene(seed, size=128):
    """A picture of a class as a camera has it: large."""
    # The first of all is among the false alarms.
    return large(pictures(seed, 2)[1], size)


def large(picture, size=128):
    return picture.repeat(size // SIDE, 0).repeat(size // SIDE, 1)


def bank_of(classifier, names, seeds=(1, 2)):
    """What a fleet knows that saw pictures of these."""
    kind = classifier.bundle.manifest.input
    every = np.concatenate([pictures(seed, 60) for seed in seeds])
    x = np.stack([images.fitted(large(picture), kind) for picture in every])
    lineage = classifier.bundle.manifest.lineages[0]
    return knowing(lineage, names, [(classifier.embed(x), np.arange(len(x)) // 60)])


def state_of(bundle, names="ab"):
    """As a fleet publishes it."""
    bank = bank_of(Classifier(bundle), names)
    return published.write(bank, wire.Envelope("global", "f", "r", round=1), "float32")


def teach(bundle, names="ab"):
    """As a daemon leaves it beside a bundle."""
    write_whole(cache.state_file(bundle), state_of(bundle, names))


def knowing_bundle(path, names="ab"):
    """An extractor, and these classes beside it."""
    extractor_bundle(path)
    teach(path, names)
    return path
