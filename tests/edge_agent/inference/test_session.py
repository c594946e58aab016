"""An extractor takes the points that are its own, and says what it is not given to judge."""

import numpy as np
import pytest

from edge_agent.inference.classifier import Classifier, Mismatch
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.exchange import published
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Prototypes
from tests.bundles import device


@pytest.fixture(scope="module")
def made():
    return export(device(), Wanted(by="prototype"))


@pytest.fixture
def bundle(made, tmp_path):
    write(made, tmp_path / "bundle")
    return tmp_path / "bundle"


def message_of(bank):
    return published.write(bank, wire.Envelope("global", "f", "r", round=9), "float32")


def test_prototypes_that_do_not_fit_are_refused_and_the_running_ones_stay(bundle):
    classifier = Classifier(bundle)
    before = classifier.loaded
    about, points = before.bank.about, before.bank.points
    narrow = Prototypes(points.classes, points.vectors[:, :5])
    for wrong, words in (
        (message_of(Bank(About("run:f/other", about.classes), points)), "of run:f/other"),
        (
            message_of(Bank(About("run:f/other", about.classes, "ab" * 32), points)),
            "fetch the bundle abababab",
        ),
        (message_of(Bank(about, narrow)), "5 numbers each"),
        (message_of(Bank(about, Prototypes([], np.zeros((0, points.dim))))), "not one class"),
        (b"\xa0", "no prototypes"),
        (bundle.joinpath("prototypes.cbor").read_bytes()[:-1], "no prototypes"),
    ):
        with pytest.raises(Mismatch, match=words):
            classifier.swap(wrong)
        assert classifier.loaded is before
