"""The networks that a device can have, by name: the papers' own, torchvision's classifiers, and
yours (`module:function`, or an entry point of the group "protofleet.networks").

A backbone is two stages, input -> low-level features -> embedding; the classifier on top is built
elsewhere, from the fleet's contract. Sub-modules keep the names of the plain network, so that
`low.` or `high.` before a name is all that sets our weights apart from a published file.
"""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor, nn

from edge_agent.networks import random_features
from edge_agent.networks.torch_env import torchvision
from protofleet.contract import Input
from protofleet.errors import UsageError

NONE: Mapping[str, Any] = MappingProxyType({})

# Torchvision's families whose forward is their children in a row. The others have side heads
# (googlenet, inception), no last linear layer (squeezenet), tokens (vit) or one fixed input size
# (maxvit).
_FAMILIES = (
    "alexnet",
    "convnext",
    "densenet",
    "efficientnet",
    "mnasnet",
    "mobilenet",
    "regnet",
    "resnet",
    "resnext",
    "shufflenet",
    "swin",
    "vgg",
    "wide_resnet",
)
# Their children are the units that `low` and `high` share out.
_SPLIT_OPEN = ("features", "layers", "trunk_output")


@dataclass(frozen=True)
class Stages:
    """A backbone's two stages, and what its own classifier looks like."""

    low: nn.Module
    high: nn.Module
    dim: int
    head_hidden: tuple[int, ...] = ()
    # On the embedding, where only the classifier sees it: prototypes are taken without.
    head_dropout: float = 0.0


# What makes a network for these inputs: it takes the input, or nothing, and returns a torch module
# (what comes out of it is the embedding) or its two stages.
Factory = Callable[..., Any]
GROUP = "protofleet.networks"


def names() -> list[str]:
    """Every backbone: our own, other packages' and, after them, torchvision's."""
    models = torchvision().models
    offered = (n for n in models.list_models(module=models) if n.startswith(_FAMILIES))
    return [*_OWN, *sorted(point.name for point in entry_points(group=GROUP)), *offered]


def build(name: str, input: Input, given: Mapping[str, Factory] = NONE) -> Stages:
    """A new backbone for these inputs. Its weights are drawn from torch's global generator. Names
    that are `given` come before all others.
    """
    factory = given.get(name) or _elsewhere(name)
    if factory is not None:
        return _yours(name, factory, input)
    if name not in _OWN and name not in (available := names()):
        near = difflib.get_close_matches(name, available, 1)
        raise UsageError(
            f"no backbone is called {name!r}",
            f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_OWN)}, …",
        )
    if input.kind != "image" and not name.startswith(("mlp", "fixed")):
        raise UsageError(
            f"backbone {name!r} takes images, the fleet's input is a {input.kind}", "take mlp"
        )
    # Whether an input fits is found by sending one through: the rules of forty families (strides,
    # kernels, patch sizes) are nowhere written down.
    try:
        stages = _OWN[name](input) if name in _OWN else _from_torchvision(name, input)
        _width(nn.Sequential(stages.low, stages.high), input)
    except RuntimeError as error:
        size = "×".join(map(str, input.shape))
        raise UsageError(
            f"backbone {name!r} does not fit inputs of {size}", "take another (mlp fits all)"
        ) from error
    return stages


def _elsewhere(name: str) -> Factory | None:
    """Other people's network of this name."""
    point = next((p for p in entry_points(group=GROUP) if p.name == name), None)
    module, colon, attribute = (point.value if point else name).partition(":")
    if not colon:
        return None
    try:
        factory = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"backbone {name!r}: {error}", "module:function, of a module that Python finds"
        ) from error
    if not callable(factory):
        raise UsageError(f"backbone {name!r} is a {type(factory).__name__}, not a function")
    return cast(Factory, factory)


def _yours(name: str, factory: Factory, input: Input) -> Stages:
    """A network that its maker knows the inside of: all of it is low and high alike, unless it is
    layers in a row or says itself where it is cut.
    """
    try:
        takes = signature(factory).parameters.values()
        module = factory(input) if any(p.default is Parameter.empty for p in takes) else factory()
        if isinstance(module, Stages):
            return module
        if not isinstance(module, nn.Module):
            raise UsageError(
                f"backbone {name!r} made a {type(module).__name__}", "a torch module is due"
            )
        whole: nn.Module = nn.Sequential(module, nn.Flatten())
        width = _width(whole, input)
    except (RuntimeError, TypeError, ValueError) as error:
        size = "×".join(map(str, input.shape))
        words = " ".join(str(error).split())[:200]
        raise UsageError(f"backbone {name!r} does not fit inputs of {size}: {words}") from error
    layers = list(module.named_children()) if isinstance(module, nn.Sequential) else []
    # Two at least on either side: the means of raw inputs, or of a first layer's, tell too much.
    if len(layers) < 4:
        return Stages(module, nn.Flatten(), width)
    cut = _halfway([layer for _, layer in layers])
    high = _chain(**dict(layers[cut:]), flatten_embedding=nn.Flatten())
    return Stages(_chain(**dict(layers[:cut])), high, width)


def default_for(input: Input) -> str:
    """What fits these inputs when nobody says: by kind and by the shorter side of an image."""
    if input.kind != "image" or _side(input) < 16:
        return "mlp"
    if input.shape == (28, 28, 1):
        return "cnn-mnist"
    return "lenet" if _side(input) <= 64 else "resnet8"


def of_device(own: str, of_method: str, input: Input) -> str:
    """What a device's settings name, else what its method is made for, else what fits the input."""
    return own or of_method or default_for(input)


def rotation(named: str, input: Input) -> tuple[str, ...]:
    """The backbones that a fleet's devices take in turn: those of a list, or for `mixed` four that
    fit the input.

    Images from 28 pixels on: lenet, cnn4, resnet8, mobilenet_v3_small. Anything else: mlp,
    mlp-wide, mlp5, mlp-small.
    """
    if named != "mixed":
        return tuple(name for part in named.split(",") if (name := part.strip()))
    large = input.kind == "image" and _side(input) >= 28
    return (
        ("lenet", "cnn4", "resnet8", "mobilenet_v3_small")
        if large
        else ("mlp", "mlp-wide", "mlp5", "mlp-small")
    )


def _side(input: Input) -> int:
    return min(input.shape[:2])


def _width(module: nn.Module, input: Input) -> int:
    """How many numbers come out for one sample; a RuntimeError when the input does not fit."""
    shape = (input.shape[2], *input.shape[:2]) if input.kind == "image" else input.shape
    # In evaluation mode: batch statistics of a single sample would be refused, and nothing may be
    # drawn or learned from it.
    with torch.no_grad():
        width = module.eval()(torch.zeros(1, *shape)).numel()
    module.train()
    return int(width)


def _chain(**modules: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(modules))


def _lenet(input: Input) -> Stages:
    """FedProto's CNNCifar: 62,006 weights at 32×32×3 with its head for 10 classes."""
    low = _chain(
        conv1=nn.Conv2d(input.shape[2], 6, 5),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, 5),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
    )
    high = _chain(flatten=nn.Flatten(), fc0=nn.Linear(_width(low, input), 120), relu3=nn.ReLU())
    return Stages(low, high, 120, head_hidden=(84,))


def _cnn_mnist(input: Input) -> Stages:
    """FedProto's CNNMnist, with both of its dropouts."""
    low = _chain(
        conv1=nn.Conv2d(input.shape[2], 10, 5),
        pool1=nn.MaxPool2d(2),
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(10, 20, 5),
        conv2_drop=nn.Dropout2d(),
        pool2=nn.MaxPool2d(2),
        relu2=nn.ReLU(),
    )
    high = _chain(flatten=nn.Flatten(), fc1=nn.Linear(_width(low, input), 50), relu3=nn.ReLU())
    return Stages(low, high, 50, head_dropout=0.5)


def _cnn_fashion(input: Input) -> Stages:
    """FedProto's CNNFashion_Mnist, which FedMPS reads on two levels."""

    def level(of: int, to: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(of, to, 5, padding=2), nn.BatchNorm2d(to), nn.ReLU(), nn.MaxPool2d(2)
        )

    low = _chain(layer1=level(input.shape[2], 16))
    high = _chain(layer2=level(16, 32), flatten=nn.Flatten())
    return Stages(low, high, _width(nn.Sequential(low, high), input))


def _cnn4(input: Input) -> Stages:
    """The four-layer CNN of HtFLlib: 582,026 weights at 28×28×1 with its head for 10 classes."""
    low = _chain(conv1=nn.Conv2d(input.shape[2], 32, 5), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2))
    middle = _chain(
        conv2=nn.Conv2d(32, 64, 5), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2), flatten=nn.Flatten()
    )
    width = _width(nn.Sequential(low, middle), input)
    high = _chain(**dict(middle.named_children()), fc1=nn.Linear(width, 512), relu3=nn.ReLU())
    return Stages(low, high, 512)


def _mlp(input: Input, widths: tuple[int, ...], signed: bool = False) -> Stages:
    """Linear layers with ReLU, the first half of them low. `signed`: none on the embedding
    (ProtoNorm's spiral).
    """
    layers: dict[str, nn.Module] = {"flatten": nn.Flatten()}
    width = _width(nn.Flatten(), input)
    for i, to in enumerate(widths, 1):
        layers |= {f"fc{i}": nn.Linear(width, to), f"relu{i}": nn.ReLU()}
        width = to
    if signed:
        del layers[f"relu{len(widths)}"]
    # Never before the first layer: the means of raw inputs would be sent.
    cut = 1 + 2 * (len(widths) // 2)
    parts = list(layers.items())
    return Stages(_chain(**dict(parts[:cut])), _chain(**dict(parts[cut:])), width)


class _Block(nn.Module):
    """The basic block of a residual network."""

    def __init__(self, of: int, to: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(of, to, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(to)
        self.conv2 = nn.Conv2d(to, to, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(to)
        self.shortcut: nn.Module = nn.Identity()
        if of != to or stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(of, to, 1, stride, bias=False), nn.BatchNorm2d(to)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def _resnet8(input: Input) -> Stages:
    """ResNet-8: three stages of one basic block, 16, 32 and 64 wide."""
    low = _chain(
        conv1=nn.Conv2d(input.shape[2], 16, 3, 1, 1, bias=False),
        bn1=nn.BatchNorm2d(16),
        relu=nn.ReLU(),
        layer1=_Block(16, 16, 1),
        layer2=_Block(16, 32, 2),
    )
    high = _chain(layer3=_Block(32, 64, 2), avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten())
    return Stages(low, high, 64)


class _ThreeChannels(nn.Module):
    """Grey images for a network of colour images."""

    def forward(self, x: Tensor) -> Tensor:
        return x.repeat(1, 3, 1, 1)


def _from_torchvision(name: str, input: Input) -> Stages:
    """A classifier of torchvision without its last linear layer, cut after about half of its leaf
    modules.
    """
    net: Any = torchvision().models.get_model(name, weights=None)
    *body, (head_name, head) = net.named_children()
    units: list[tuple[str, Any]] = []
    for path, child in body:
        units += (
            [(f"{path}.{k}", m) for k, m in child.named_children()]
            if path in _SPLIT_OPEN
            else [(path, child)]
        )
    # What these networks compute by functions, between their modules, is made a module here.
    if name.startswith("densenet"):
        units.append(("relu", nn.ReLU()))
    if not any(path == "avgpool" for path, _ in units):
        units.append(("avgpool", nn.AdaptiveAvgPool2d(1)))
    rest: list[tuple[str, Any]] = (
        list(head.named_children()) if isinstance(head, nn.Sequential) else [("", head)]
    )
    last = rest.pop()[1]
    dropout = rest.pop()[1].p if rest and isinstance(rest[-1][1], nn.Dropout) else 0.0
    if not any(isinstance(unit, nn.Flatten) for _, unit in [*units, *rest]):
        units.append(("flatten", nn.Flatten()))
    units += [(f"{head_name}.{k}", m) for k, m in rest]
    # Repeated and not built for one channel: published weights expect three.
    if input.shape[2] == 1:
        units.insert(0, ("grey", _ThreeChannels()))
    cut = _halfway([unit for _, unit in units])
    # A ReLU that works in place would write into the low-level features it is given.
    if getattr(units[cut][1], "inplace", False):
        units[cut][1].inplace = False
    return Stages(_nest(units[:cut]), _nest(units[cut:]), last.in_features, head_dropout=dropout)


def _halfway(units: list[nn.Module]) -> int:
    leaves = [sum(1 for m in unit.modules() if not any(m.children())) for unit in units]
    return next(i for i in range(1, len(units)) if 2 * sum(leaves[:i]) >= sum(leaves))


def _nest(units: Iterable[tuple[str, nn.Module]]) -> nn.Sequential:
    """`features.3` becomes a module `3` in a module `features`: torchvision's names stay."""
    whole = nn.Sequential()
    for path, unit in units:
        parent, _, name = path.rpartition(".")
        if parent and not hasattr(whole, parent):
            whole.add_module(parent, nn.Sequential())
        whole.get_submodule(parent).add_module(name, unit)
    return whole


def _fixed(input: Input) -> Stages:
    """Random filters, for methods that learn from a frozen extractor."""
    return Stages(*random_features.stages(input), random_features.WIDTH)


_OWN: dict[str, Callable[[Input], Stages]] = {
    "lenet": _lenet,
    "cnn-mnist": _cnn_mnist,
    "cnn-fashion": _cnn_fashion,
    "cnn4": _cnn4,
    "resnet8": _resnet8,
    "mlp": partial(_mlp, widths=(128, 64)),
    "mlp-small": partial(_mlp, widths=(64, 32)),
    "mlp-wide": partial(_mlp, widths=(256, 128)),
    # MP-FedCL's for MNIST: 798,474 weights with its head.
    "mlp-mnist": partial(_mlp, widths=(512, 512, 256)),
    "mlp5": partial(_mlp, widths=(100, 100, 100, 64)),
    "fixed": _fixed,
    # ProtoNorm's, whose paper gives no widths; an embedding of two can be drawn.
    "mlp-spiral": partial(_mlp, widths=(100, 100, 100, 2), signed=True),
}
