"""A device for tests of its page: a bundle, what its fleet knows, and pictures that wait."""

import numpy as np

from edge_agent.inference.classifier import Classifier
from edge_agent.recent.memory import Memory, View
from edge_agent.updates import cache
from protofleet import wire
from protofleet.exchange import contributed, learned, published
from protofleet.exchange.contributed import Claim
from protofleet.exchange.published import About, Bank
from protofleet.statistics import counts
from protofleet.statistics.closed_form import moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.held_out import Samples
from tests.edge_agent.recent.seeing import jpeg
from tests.networks import extractor_bundle, pictures

NAMES = ("one", "two", "three")


def bundle_of(folder):
    """An extractor that knows no class."""
    extractor_bundle(folder / "fleet.pfb")
    return folder / "fleet.pfb"


def teach(bundle, names=NAMES):
    """The fleet learned these colours, was counted, and its sums are here."""
    classifier = Classifier(bundle)
    lineage = classifier.bundle.manifest.lineages[0]
    images = np.concatenate([pictures(seed, 40) for seed in range(1, len(names) + 1)])
    features, labels = classifier.embed(images), np.repeat(np.arange(len(names)), 40)
    own = contribution(features, labels, Grid())
    total = fold(own, Grid())
    counted = counts.count(moments(total), Samples.of(features, labels, own))
    state, whole = learned.state(total, counted)
    about = About(lineage, names, "b", whole.calibration, "t")
    payload = published.write(Bank(about, whole.head), wire.Envelope("global", "f"), "float32")
    message = contributed.write_total(
        Claim(lineage, names, total="t"), state.shared, wire.Envelope("global", "f", "r")
    )
    cache.total_file(bundle).write_bytes(message)
    cache.state_file(bundle).write_bytes(payload)


def see(bundle, *colours):
    """`(seed, count)`: so many pictures of a colour are seen."""
    classifier = Classifier(bundle)
    cache.settled(classifier, bundle)
    memory = Memory(bundle)
    for seed, count in colours:
        now = classifier.in_use
        answer = now.look(pictures(seed, count))
        for row in range(count):
            memory.add(now, answer, row, View(lambda s=seed, r=row: jpeg(s, r), f"door {seed}"))
    memory.save()
