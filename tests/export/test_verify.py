"""A graph beside its network: what a difference is, when it is too large, and inputs of nobody."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from edge_agent.inference.bundle import Reading
from edge_agent.inference.inputs import ready
from export import graph, verify
from export.forms import ExportError
from export.trial import Trial
from export.verify import (
    LARGEST_DIFFERENCE,
    by_torch,
    check,
    check_features,
    must_agree,
    patterns,
    scores,
)
from protofleet.contract import Input
from protofleet.exchange.published import About, Bank
from tests.bundles import device

READING = Reading("prototypes")


@pytest.fixture(scope="module")
def exported():
    """A network, its graph, its points, and samples."""
    source = device()
    points = source.scorers["prototype"].prototypes
    inputs = ready(Bank(About("run:f/r", source.contract.classes), points), READING)
    module = graph.classifying(source.net, source.contract.input, READING)
    model = graph.to_onnx(module, source.contract.input, inputs.inputs)
    return module, model, inputs, source.check


def test_graph_and_network_agree_block_for_block(exported):
    module, model, inputs, trial = exported
    score, feature = scores(model, trial.x, inputs.inputs)
    expected, features = by_torch(module, trial.x, inputs.inputs)
    assert len(score) == len(trial.x) > verify.BLOCK
    assert np.abs(score - expected).max() <= LARGEST_DIFFERENCE * np.abs(expected).max()
    assert np.allclose(feature, features, atol=1e-4)


def test_a_check_counts_right_answers_of_the_samples_that_have_a_label(exported):
    module, model, inputs, trial = exported
    found = check(model, module, trial, inputs, "prototypes")
    right = inputs.present[by_torch(module, trial.x, inputs.inputs)[0].argmax(1)] == trial.y
    assert found.accuracy_before == found.accuracy_after == pytest.approx(right.mean())
    assert (found.samples, found.agreement_clear) == (len(trial.x), 1.0)
    nobodys = Trial(trial.x[:20], np.full(20, -1))
    assert check(model, module, nobodys, inputs, "prototypes").accuracy_before is None
    must_agree(found, "model.onnx")


def test_a_graph_of_other_weights_is_an_error(exported):
    module, _, inputs, trial = exported
    with torch.no_grad():
        other = device()
        next(other.net.backbone.parameters()).mul_(1.01)
    wrong = graph.to_onnx(
        graph.classifying(other.net, other.contract.input, READING),
        other.contract.input,
        inputs.inputs,
    )
    found = check(wrong, module, trial, inputs, "prototypes")
    assert found.difference > LARGEST_DIFFERENCE
    with pytest.raises(ExportError, match="graph differs from the network by"):
        must_agree(found, "graph")
    sound = replace(found, difference=0.0, agreement_clear=1.0)
    must_agree(sound, "graph")
    for broken in (replace(sound, difference=float("nan")), replace(sound, agreement_clear=0.99)):
        with pytest.raises(ExportError):
            must_agree(broken, "graph")


@pytest.mark.parametrize(
    "kind",
    [
        Input("image", (28, 20, 3)),
        Input("image", (5, 5, 1)),
        Input("vector", (6,), (1.0,) * 6, (2.0,) * 6),
        Input("series", (4, 3)),
    ],
    ids=lambda kind: f"{kind.kind} {kind.shape}",
)
def test_made_up_inputs_are_the_same_everywhere_and_differ_from_each_other(kind):
    x = patterns(kind)
    assert x.shape == (verify.VECTORS, *kind.shape)
    assert x.dtype == (np.uint8 if kind.kind == "image" else np.float32)
    assert np.array_equal(x, patterns(kind))
    assert len({one.tobytes() for one in x}) == len(x)


def test_features_that_half_precision_loses_are_one_line():
    source = device()
    with torch.no_grad():
        last = list(source.net.backbone.parameters())[-2:]
        for weight in last:
            weight.mul_(1e-9)
    points = source.scorers["prototype"].prototypes
    small = replace(points, vectors=np.float32(np.float16(1e-9 * points.vectors)))
    inputs = ready(Bank(About("run:f/r", source.contract.classes), small), READING)
    module = graph.classifying(source.net, source.contract.input, READING)
    model = graph.to_onnx(module, source.contract.input, inputs.inputs)
    with pytest.raises(ExportError, match="every score is nothing"):
        check(model, module, source.check, inputs, "prototypes")


def test_a_graphs_features_alone_are_checked_where_there_are_no_points():
    source = device()
    module = graph.classifying(source.net, source.contract.input, READING)
    points = {"proto_w": np.zeros((24, 3), np.float32), "proto_b": np.zeros(3, np.float32)}
    model = graph.to_onnx(module, source.contract.input, points)
    x = source.check.x[:20]
    due = by_torch(module, x, points)[1]
    nothing = {"proto_w": np.zeros((24, 0), np.float32), "proto_b": np.zeros(0, np.float32)}
    found = check_features(model, due, Trial(x, np.full(20, -1)), nothing)
    assert found.cosine == pytest.approx(1)
    must_agree(found, "model.onnx")
    other = check_features(model, due[::-1], Trial(x, np.full(20, -1)), nothing)
    assert other.cosine < 0.999
    with pytest.raises(ExportError, match="of the largest feature"):
        must_agree(other, "model.onnx")
