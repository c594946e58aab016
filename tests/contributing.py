"""Contributions of devices that never were: messages as a ledger gets them."""

import numpy as np

from protofleet.exchange import contributed
from protofleet.exchange.contributed import Claim
from protofleet.mqtt.topics import TopicParts
from protofleet.statistics import counts
from protofleet.statistics.contribution import Grid, contribution
from protofleet.statistics.held_out import Samples
from protofleet.wire import Envelope

LINEAGE, FLEET, WIDTH = "extractor:e", "orchard", 4
GRID = Grid()


def samples(names, seed=0, number=6, width=WIDTH):
    """Features of so many samples a class, around a place of its own for each name, and labels."""
    rng = np.random.default_rng([seed, *"".join(names).encode()])
    places = [np.random.default_rng([*name.encode()]).normal(size=width) * 3 for name in names]
    labels = np.repeat(np.arange(len(names)), number)
    features = np.stack(places)[labels] + rng.normal(size=(len(labels), width))
    return features, labels


def message(agent, names, seed=0, *, source="", lineage=LINEAGE, fleet=FLEET, **more):
    """A contribution as it travels."""
    own = contribution(*samples(names, seed, **more), GRID)
    envelope = Envelope("enrol", fleet, agent=agent, method=contributed.CONTRIBUTE)
    return contributed.write_contribution(Claim(lineage, tuple(names), source), own, envelope)


def read(agent, names, seed=0, **more):
    """And as it is read."""
    return contributed.read(message(agent, names, seed, **more))


def arrived(agent, payload):
    """A message on its topic, as it arrives."""
    return TopicParts(agent, "upload", ("0",)), payload


def counted(agent, names, total, seed=0, **more):
    """What a device that contributed `message(agent, names, seed)` counts against a total."""
    claim, against = contributed.read_total(total)
    features, labels = samples(names, seed, **more)
    ids = np.array([claim.classes.index(name) for name in names])
    own = Samples.of(features, ids[labels], contribution(features, labels, GRID).keyed(ids))
    report = counts.count(against, own)
    envelope = Envelope("enrol", FLEET, agent=agent, method=contributed.COUNT)
    return contributed.write_counts(Claim(LINEAGE, total=claim.total), report, envelope)
