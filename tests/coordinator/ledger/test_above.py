"""What a fleet above said, as a site says it."""

import numpy as np

from coordinator.ledger.above import Above
from coordinator.messages import Messages
from protofleet import registry, wire
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.topics import Topics
from protofleet.values.prototypes import Prototypes
from protofleet.wire import Envelope
from tests.coordinator.made import CONTRACT

TOTAL = "ab" * 32
POINTS = Prototypes(np.arange(2), np.eye(2, dtype=np.float32))


def classes(**more):
    about = About("extractor:e", ("ant", "bee"), total=TOTAL, asked=0.5)
    about = About(**{**vars(about), **more})
    return published.write(Bank(about, POINTS), Envelope("global", "f", "top", 7))


def total(base=TOTAL):
    return wire.encode(Envelope("global", "f", "top", 7, round=3, base=base), {"means": POINTS})


def test_a_total_is_offered_once_it_is_here_and_the_classes_are_of_it():
    whole = Above(classes(), total())
    assert whole.bank.about.classes == ("ant", "bee")
    offered = whole.offered("extractor:e")
    assert (offered.total, offered.share) == (TOTAL, 0.5)
    for other in (
        Above(),
        Above(classes()),
        Above(classes(), total("cd" * 32)),
        Above(classes(asked=0.0), total()),
        whole.without_total(),
    ):
        assert other.offered("extractor:e").total == ""
    assert whole.offered("extractor:f").total == ""


def test_the_total_is_said_under_the_sites_own_run_and_epoch_with_the_same_body():
    recipe = registry.load("fleet")
    messages = Messages(Topics("orchard"), CONTRACT, recipe, recipe.hyper(), 2, "boot", 131_072)
    said = Above(classes(), total()).total_message("a/topic", messages)
    envelope, body = wire.unseal(said.payload)
    assert (envelope.fleet, envelope.run, envelope.epoch) == ("orchard", "r1", 2)
    assert (envelope.base, envelope.round, said.retain) == (TOTAL, 3, True)
    assert body == wire.unseal(total())[1]
