"""Fewer bits: smaller, nearly the same answers, and the prototypes follow the extractor."""

import pytest

from edge_agent.inference.classifier import Classifier
from export.writer import Wanted, export, write
from protofleet.recipe import Linear
from tests.bundles import device


@pytest.fixture(scope="module")
def source():
    return device(extras={"through": Linear(12)}, hidden=(16,))


@pytest.mark.parametrize(("precision", "size", "same"), [("fp16", 0.6, 0.98), ("int8", 0.5, 0.9)])
def test_fewer_bits_are_smaller_and_say_the_same(precision, size, same, tmp_path):
    source = device("mlp-wide")
    made = export(source, Wanted(precision=precision, smallest=True))
    full, lower = made.report["fp32"], made.report[precision]
    assert made.manifest.precision == precision
    assert lower["bytes"] < size * full["bytes"]
    assert lower["agreement"] >= same
    classifier = Classifier(write(made, tmp_path / "b"))
    by_fleet = classifier.loaded.state
    assert (
        by_fleet == export(source, Wanted()).manifest.state
    )  # drift is the graph's: published prototypes stay as they are
