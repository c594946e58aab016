"""Whatever a source is, what comes out is a graph from stored pixels, how to feed it, and a lineage
over both.
"""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from export.extractor import Extractor, extractor, no_points
from export.feeding import SCALES, SourceTerms
from export.trial import Trial
from export.verify import check_features, must_agree, patterns, scores
from protofleet.contract import Input
from protofleet.errors import FleetError
from tests.networks import FILTERS, by_hand, foreign


@pytest.fixture
def file(tmp_path):
    foreign(tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def of(file, **how):
    return extractor(SourceTerms(str(file), **({"scale": SCALES["imagenet"]} | how)))


def test_a_graph_says_what_its_source_does(file):
    built = of(file)
    x = patterns(built.input, 9)
    mean, std = map(np.array, SCALES["imagenet"])
    assert np.allclose(built.embed(x), by_hand(x, mean, std), atol=1e-5)
    trial = Trial(x, np.full(9, -1))
    must_agree(check_features(built.model, built.embed(x), trial, no_points(FILTERS)), "it")
    assert (built.name, built.embedding, built.factor) == ("net", FILTERS, 1.0)
    assert built.feeding == "16×16 RGB, scale imagenet"


def test_the_lineage_is_over_graph_and_feeding(file, tmp_path):
    first = of(file)
    assert first.lineage.startswith("extractor:")
    assert of(file).lineage == first.lineage
    assert of(file, scale=SCALES["half"]).lineage != first.lineage
    kind = replace(first.input, mean=(0.1,) * 3)
    assert replace(first, input=kind).lineage != first.lineage
    model = onnx.load(file)
    weight = numpy_helper.to_array(model.graph.initializer[0]).copy()
    weight[0, 0, 0, 0] += 1e-3
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "conv"))
    onnx.save(model, tmp_path / "other.onnx")
    assert of(tmp_path / "other.onnx").lineage != first.lineage


def test_what_the_file_is_called_is_not_in_its_lineage(file, tmp_path):
    (tmp_path / "renamed.onnx").write_bytes(file.read_bytes())
    assert of(tmp_path / "renamed.onnx").lineage == of(file).lineage


@pytest.mark.parametrize("size", [2.0**-20, 2.0**14])
def test_features_that_half_precision_would_lose_are_moved_by_a_power_of_two(file, size):
    model = onnx.load(file)
    weight = numpy_helper.to_array(model.graph.initializer[0]) * np.float32(size)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "conv"))
    onnx.save(model, file)
    built = of(file)
    feature = scores(built.model, patterns(built.input), no_points(FILTERS))[1]
    assert 1 <= np.abs(feature).max() < 2
    assert np.log2(built.factor) == round(np.log2(built.factor))
    assert np.allclose(built.embed(patterns(built.input)), feature, atol=1e-5)


def test_an_extractor_that_sees_nothing_is_refused(file):
    model = onnx.load(file)
    weight = np.zeros_like(numpy_helper.to_array(model.graph.initializer[0]))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "conv"))
    onnx.save(model, file)
    with pytest.raises(FleetError, match="pool is the same for every picture"):
        of(file)
    weight[:] = np.inf
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "conv"))
    onnx.save(model, file)
    with pytest.raises(FleetError, match="not finite; is the scale the right one"):
        of(file)


def test_how_a_file_was_fed_is_never_guessed(file, tmp_path):
    with pytest.raises(FleetError, match=r"net\.onnx does not say how its pixels are scaled"):
        of(file, scale=None)
    foreign(tmp_path / "bytes.onnx", dtype=onnx.TensorProto.UINT8)
    with pytest.raises(FleetError, match="takes pixels as they are stored; leave --scale out"):
        of(tmp_path / "bytes.onnx")
    assert of(tmp_path / "bytes.onnx", scale=None).input.mean == ()


@pytest.mark.parametrize(
    ("source", "how", "words"),
    [
        ("nowhere.onnx", {}, "No such file"),
        ("some/where", {}, "no such file; a source is a name, module:function or an ONNX file"),
        ("C:\\net", {}, "no such file"),
        ("random", {"output": "x"}, "--output and --layout go with an ONNX file"),
        ("w.pt", {}, r"holds weights of a network; extractor NETWORK --weights w\.pt"),
    ],
)
def test_what_is_no_source_is_one_line(source, how, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.pt").write_bytes(b"")
    with pytest.raises(FleetError, match=words):
        extractor(SourceTerms(source, **how))


def test_a_file_has_weights_of_its_own(file):
    with pytest.raises(FleetError, match="--weights goes with a network's name"):
        of(file, weights="imagenet")


def test_a_torch_network_goes_the_same_way():
    built = extractor(SourceTerms("random", size=(16, 16), seed=3))
    assert isinstance(built, Extractor)
    x = patterns(built.input, 5)
    trial = Trial(x, np.full(5, -1))
    nothing = no_points(built.embedding)
    must_agree(check_features(built.model, built.embed(x), trial, nothing), "it")
    assert extractor(SourceTerms("random", size=(16, 16), seed=3)).lineage == built.lineage
    assert extractor(SourceTerms("random", size=(16, 16), seed=4)).lineage != built.lineage


@pytest.mark.parametrize(
    "kind",
    [
        Input("vector", (13,), tuple(range(13)), (0.5,) * 13),
        Input("series", (20, 3), (1.0, 2.0, 3.0), (2.0,) * 3),
        Input("series", (9, 1)),
    ],
)
def test_vectors_and_series_go_through_random_sums(kind):
    built = extractor(SourceTerms("random", seed=3, numbers=kind))
    x = patterns(kind, 7)
    must_agree(
        check_features(built.model, built.embed(x), Trial(x, np.full(7, -1)), no_points(504)), "it"
    )
    again = extractor(SourceTerms("random", seed=3, numbers=kind))
    assert (again.lineage, again.input, again.embedding) == (built.lineage, kind, 504)
    # What a sample is scaled to is what its features are of.
    plain = extractor(SourceTerms("random", seed=3, numbers=Input(kind.kind, kind.shape)))
    if kind.mean:
        scaled = ((x - np.array(kind.mean)) / np.array(kind.std)).astype(np.float32)
        assert np.allclose(
            plain.embed(scaled) / plain.factor, built.embed(x) / built.factor, atol=1e-4
        )


def test_a_network_of_images_takes_no_vectors(file):
    numbers = Input("vector", (13,))
    with pytest.raises(FleetError, match="lite0 sees images"):
        extractor(SourceTerms("lite0", numbers=numbers))
    with pytest.raises(FleetError, match="an ONNX file is fed with images"):
        extractor(SourceTerms(str(file), numbers=numbers))
