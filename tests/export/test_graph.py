"""The graph beside the network: every way of classifying, every kind of input, before and after a
swap.
"""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch

from edge_agent.inference.classifier import Classifier
from edge_agent.training.batches import SampleTensors, blocks
from edge_agent.training.evaluate import _scores
from export.forms import OPSET, ExportError
from export.graph import of_opset
from export.verify import session
from export.writer import Wanted, export, write
from protofleet.contract import Input, Numerics
from protofleet.recipe import ByHead, Linear
from protofleet.values import nearest
from protofleet.values.prototypes import Head
from tests.bundles import device, other_bank


@pytest.fixture(scope="module")
def source():
    return device(extras={"through": Linear(12)}, hidden=(16,))


def scored_by_evaluation(source, name, x, points):
    scorer = source.scorers[name]
    for held in ("prototypes", "mixtures"):
        scorer = replace(scorer, **{held: points}) if hasattr(scorer, held) else scorer
    kind = source.contract.input
    samples = SampleTensors.of(x, np.zeros(len(x), np.int64), kind)
    with torch.no_grad():
        z = torch.cat([source.net.features(each)[1] for each in blocks(samples, kind, Numerics())])
        return _scores(scorer, source.net, z, source.contract.n_classes)


@pytest.mark.parametrize(
    "by", ["prototype", "cosine", "unit", "head", "unit-head", "mixture", "through"]
)
def test_a_device_answers_what_evaluation_answers(source, by, tmp_path):
    classifier = Classifier(write(export(source, Wanted(by=by)), tmp_path / "b"))
    x = source.check.x[:200]
    due = scored_by_evaluation(source, by, x, classifier.loaded.bank.points)
    answer = classifier.look(x)
    names = [source.contract.classes[i] for i in nearest.best(due)]
    ranked = np.sort(due, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 1e-4 * np.abs(due).max()
    assert clear.sum() > 50
    assert [a for a, c in zip(answer.best, clear, strict=True) if c] == [
        n for n, c in zip(names, clear, strict=True) if c
    ]
    if by in ("prototype", "unit"):
        assert np.allclose(answer.distances, -due, rtol=1e-4, atol=1e-5)
    if by == "mixture":
        assert np.allclose(answer.scores, due, rtol=1e-3, atol=0.05)


@pytest.mark.parametrize(
    ("backbone", "kind"),
    [
        ("cnn-mnist", Input("image", (28, 28, 1), (0.13,), (0.3,))),
        ("lenet", Input("image", (32, 32, 3), (0.5, 0.4, 0.3), (0.2, 0.25, 0.3))),
        ("resnet8", Input("image", (16, 20, 3), (0.5,) * 3, (0.5,) * 3)),
        ("mlp", Input("vector", (6,))),
        ("mlp", Input("series", (5, 3), (1.0, 2.0, 3.0), (0.5, 2.0, 1.0))),
    ],
)
def test_networks_and_inputs(backbone, kind, tmp_path):
    source = device(backbone, kind=kind)
    made = export(source, Wanted())
    found = made.report["fp32"]
    assert found["difference"] <= 1e-4
    assert found["agreement_clear"] == 1
    classifier = Classifier(write(made, tmp_path / "b"))
    for n in (1, 7, 80):
        assert len(classifier.classify(source.check.x[:n])[0]) == n


@pytest.mark.parametrize("by", ["head", "unit-head", "prototype"])
def test_a_classifier_that_ends_in_a_relu_does_so_in_the_graph(by, tmp_path):
    source = device(hidden=(16,), head_relu=True)
    made = export(source, Wanted(by=by))
    assert made.report["fp32"]["difference"] <= 1e-4
    classifier = Classifier(write(made, tmp_path / "b"))
    x = source.check.x[:200]
    due = scored_by_evaluation(source, by, x, classifier.loaded.bank.points)
    answer = classifier.look(x)
    if by == "prototype":
        assert np.allclose(answer.distances, -due, rtol=1e-4, atol=1e-5)
        return
    assert 0.1 < (due == 0).mean() < 0.9
    assert np.allclose(answer.scores, due, rtol=1e-2, atol=1e-3)  # rows travel in half
    assert (answer.scores[due == 0] < 1e-3).all()


@pytest.mark.parametrize("relu", [False, True])
def test_logits_of_length_one_have_it_in_the_graph(relu, tmp_path):
    source = device(hidden=(16,), head_relu=relu, unit_logits=True)
    made = export(source, Wanted(by="head"))
    assert made.report["fp32"]["difference"] <= 1e-4
    classifier = Classifier(write(made, tmp_path / "b"))
    x = source.check.x[:100]
    due = scored_by_evaluation(source, "head", x, None)
    assert np.allclose(np.linalg.norm(due, axis=1), 1, atol=1e-5)
    assert np.allclose(classifier.look(x).scores, due, rtol=1e-2, atol=1e-2)  # rows in half


def test_pooled_features_are_pooled_in_the_graph(tmp_path):
    source = device("mlp-small", embedding=50, resize="pool")  # 32 to 50: no whole windows
    made = export(source, Wanted(by="prototype"))
    assert made.report["fp32"]["difference"] <= 1e-4
    classifier = Classifier(write(made, tmp_path / "b"))
    x = source.check.x[:100]
    due = scored_by_evaluation(source, "prototype", x, classifier.loaded.bank.points)
    assert np.allclose(classifier.look(x).distances, -due, rtol=1e-4, atol=1e-5)


def test_rows_of_a_methods_own_read_the_embedding_and_have_no_relu(tmp_path):
    source = device(hidden=(16,), head_relu=True)
    rng = np.random.default_rng(0)
    classes = np.arange(source.contract.n_classes)
    width = source.contract.embedding
    rows = Head(
        classes,
        rng.normal(size=(len(classes), width)).astype(np.float32),
        rng.normal(size=len(classes)).astype(np.float32),
    )
    source = replace(source, scorers={"rows": ByHead(rows=rows)})
    classifier = Classifier(write(export(source, Wanted(by="rows")), tmp_path / "b"))
    x = source.check.x[:50]
    due = scored_by_evaluation(source, "rows", x, None)
    assert (due < 0).any()
    assert np.allclose(classifier.look(x).scores, due, rtol=1e-2, atol=1e-2)  # rows in half


def test_new_prototypes_in_another_number_agree_with_the_network(source, tmp_path):
    classifier = Classifier(write(export(source, Wanted(by="prototype")), tmp_path / "b"))
    bank = other_bank(classifier.loaded.bank)
    x = source.check.x
    with torch.no_grad():
        samples = SampleTensors.of(x, np.zeros(len(x), np.int64), source.contract.input)
        z = torch.cat(
            [
                source.net.features(each)[1]
                for each in blocks(samples, source.contract.input, Numerics())
            ]
        )
    due = nearest.prototype_scores(z.numpy(), bank.points, source.contract.n_classes)
    classifier.use(bank, "other")
    answer = classifier.look(x)
    apart = np.abs(-answer.distances - due).max() / np.abs(due).max()
    assert apart <= 1e-4
    assert answer.state == "other"


def test_a_graph_says_nothing_of_the_machine_it_was_made_on(source):
    for name, data in export(source, Wanted(also=("baked", "fixed"))).files.items():
        for trace in (b"/home", b"/root", b"/tmp", b"site-packages", b".py"):
            assert trace not in data, name


def test_the_graph_is_of_the_opset_that_was_asked_for(source):
    model = onnx.load_from_string(export(source, Wanted()).files["model.onnx"])
    assert [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")] == [
        OPSET
    ]
    model.opset_import[0].version = OPSET - 1
    with pytest.raises(ExportError, match="opset"):
        of_opset(model)


@pytest.mark.parametrize("by", ["prototype", "mixture"])
def test_the_other_forms_say_the_same(source, by):
    """The export compares them; here: that they are what they are called."""
    made = export(source, Wanted(by=by, also=("baked", "fixed", "raw"), ort=True))
    shape = json.loads(made.files["rows.json"])["shapes"]["proto_w"]
    assert len(made.files["proto_w.f32"]) == 4 * shape[0] * shape[1]
    assert b"ai.onnx;" in made.files["operators.config"]
    assert b"CoreML" in made.files["mobile.txt"]
    baked = session(made.files["baked.onnx"])
    assert [each.name for each in baked.get_inputs()] == ["image"]
    fixed = session(made.files["fixed.onnx"])
    shapes = {each.name: each.shape for each in fixed.get_inputs()}
    assert all(isinstance(size, int) for shape in shapes.values() for size in shape)
    assert shapes["image"][0] == 1
