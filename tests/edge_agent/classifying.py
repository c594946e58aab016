"""What tests of a device that classifies have in common: states for its bundle, and new things."""

from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache, enrolment
from protofleet import wire
from protofleet.exchange import published
from tests.bundles import digits


def message_of(bank, fleet="f"):
    return published.write(bank, wire.Envelope("global", fleet, "r", round=9), "float32")


def in_use(bundle):
    classifier = Classifier(bundle)
    cache.settled(classifier, bundle)
    return classifier


def nines(n=5):
    data = digits()
    return data.x[data.y == 9][:n]


def keep(classifier, place, label, images):
    new = enrolment.embedded(classifier, label, images)
    enrolment.keep(classifier, place, new.message("f", "a"))
    return new
