"""Weights from elsewhere for a new network: ImageNet's from torchvision, or a file of plain
tensors.

A file may name its tensors as torchvision does (`layer1.0.conv1.weight`) or as we do
(`backbone.low.layer1...`). The whole backbone must be found in it, and nothing but classifiers may
be left over: a deeper network's file would otherwise load its first layers without a word.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from edge_agent.networks.net import FleetNet
from edge_agent.networks.torch_env import torchvision
from protofleet.errors import DataError, UsageError

# Torchvision's names for the last layer, then ours.
_HEADS = ("fc.", "classifier.", "head.", "extras.")


def load_pretrained(stages: nn.Module, backbone: str, weights: str) -> None:
    """Take the weights of a network's two stages (its `backbone`) from `imagenet` or from a `.pt`
    or `.pth` file.
    """
    offered = _imagenet(backbone) if weights == "imagenet" else tensors_of(weights)
    target = {f"backbone.{name}": tensor for name, tensor in stages.state_dict().items()}
    used, missing, misfits = set(), [], []
    for name, tensor in target.items():
        source = next((n for n in (name, _plain(name)) if n in offered), None)
        if source is None:
            # A projection to the fleet's embedding size is ours alone, a classifier's hidden layers
            # are not published with its backbone, and counters of batches are never used.
            ours = name.startswith(("backbone.project.", "backbone.neck."))
            if not ours and not name.endswith(".num_batches_tracked"):
                missing.append(name)
            continue
        used.add(source)
        if offered[source].shape != tensor.shape:
            misfits.append(f"{source} is {_size(offered[source])}, {_size(tensor)} is due")
    unused = [name for name in offered if name not in used and not name.startswith(_HEADS)]
    faults = [
        *([f"{len(missing)} tensors are missing, {_plain(missing[0])} first"] if missing else []),
        *([f"{len(misfits)} have another shape ({misfits[0]})"] if misfits else []),
        *([f"{len(unused)} have no place in it, {unused[0]} first"] if unused else []),
    ]
    if faults:
        raise DataError(
            f"weights {weights!r} do not fit backbone {backbone!r}: {'; '.join(faults)}"
        )
    # Only now that all of it fits: a network must not be left with half of its weights replaced.
    with torch.no_grad():
        for name, tensor in target.items():
            source = name if name in offered else _plain(name)
            if source in offered:
                tensor.copy_(offered[source])


def freeze(net: FleetNet) -> None:
    """The backbone, with its projection where it has one, learns no more.

    Running statistics of batch norms still move in training mode: who trains keeps `net.backbone`
    in `eval()`.
    """
    net.backbone.requires_grad_(False)


def _imagenet(backbone: str) -> Mapping[str, Tensor]:
    models = torchvision().models
    if backbone not in models.list_models(module=models):
        raise UsageError(
            f"there are no imagenet weights for backbone {backbone!r}",
            "take one of torchvision's, such as resnet18",
        )
    try:
        weights: dict[str, Tensor] = models.get_model_weights(backbone).DEFAULT.get_state_dict(
            progress=False, check_hash=True, weights_only=True
        )
    except (OSError, RuntimeError) as error:  # no network, no room on the disk, a broken download
        raise DataError(
            f"imagenet weights of {backbone} cannot be fetched: {error}",
            "connect to the internet, or name a file",
        ) from error
    return weights


def tensors_of(path: str) -> Mapping[str, Tensor]:
    """A file of plain tensors by their names."""
    if Path(path).suffix not in (".pt", ".pth"):
        raise UsageError(f"weights {path!r} are neither imagenet nor a .pt or .pth file")
    # weights_only: a pickle from elsewhere could otherwise run whatever it likes.
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"weights {path!r} cannot be read: {error.strerror or error}") from error
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise DataError(
            f"weights {path!r}: not a file of plain tensors", "save a state_dict with torch.save"
        ) from error
    if not isinstance(content, Mapping) or not all(
        isinstance(tensor, Tensor) for tensor in content.values()
    ):
        raise DataError(
            f"weights {path!r}: not a state_dict (names and tensors)", "save net.state_dict()"
        )
    return content


def _plain(name: str) -> str:
    """Our name of a backbone's tensor, as the plain network has it."""
    return name.removeprefix("backbone.").removeprefix("low.").removeprefix("high.")


def _size(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "a single number"
