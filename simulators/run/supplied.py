"""What a program brings instead of naming it: arrays or a torch `Dataset`, lists of rows, a torch
module, a recipe of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.data.dataset import DataSet, Ints
from edge_agent.data.files import from_arrays
from edge_agent.networks.backbones import Factory
from protofleet.errors import UsageError
from protofleet.recipe import Recipe
from simulators.run import partitions
from simulators.run.partitions import PartitionOptions, Shard

if TYPE_CHECKING:
    from torch import nn

Rows = Sequence[Sequence[int]]


def data_set(data: Any, classes: Sequence[str], seed: int, *, in_order: bool) -> DataSet:
    """`(x, y)`, `(x_train, y_train, x_test, y_test)` or a torch `Dataset` as a set. Where nobody
    says what is for tests, a quarter of each class is; `in_order` leaves rows where they are, since
    others count on their numbers.
    """
    if isinstance(data, DataSet):
        return data
    if isinstance(data, (tuple, list)):
        if len(data) not in (2, 4):
            raise UsageError(f"data: {len(data)} arrays", "(x, y), or two of each: train and test")
        arrays = [_plain(each) for each in data]
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        arrays = _listed(data)
    else:
        raise UsageError(
            f"data: a {type(data).__name__}", "a name, a path, arrays (x, y), or a torch Dataset"
        )
    arrays = [_samples(each) for each in arrays]
    if len(arrays) == 2 and in_order:
        arrays += [arrays[0][:0], arrays[1][:0]]
    keys = ("x", "y") if len(arrays) == 2 else ("x_train", "y_train", "x_test", "y_test")
    stored = dict(zip(keys, arrays, strict=True))
    if classes:
        stored["classes"] = np.array(list(classes))
    hashed = sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    return from_arrays(f"arrays-{hashed.hexdigest()[:12]}", stored, seed)


def shards(rows: Rows, data: DataSet, seed: int, options: PartitionOptions) -> tuple[Shard, ...]:
    """Devices that hold these rows each."""
    chosen: list[Ints] = [np.asarray(each) for each in rows]
    return partitions.given(data, chosen, seed, options).shards


def networks(network: Any) -> tuple[str, Mapping[str, Factory]]:
    """A network's name, and what makes it: a function or a class makes a new one for each device;
    a module that is there is where all devices begin.
    """
    from torch import nn

    if isinstance(network, str):
        return network, {}
    if isinstance(network, nn.Module):
        return type(network).__name__, {type(network).__name__: Copies(network)}
    if callable(network):
        name = getattr(network, "__name__", type(network).__name__)
        name = "own" if name == "<lambda>" else name
        return name, {name: network}
    raise UsageError(
        f"network: a {type(network).__name__}", "a name, a torch module, or a function"
    )


class Copies:
    """The same module again and again, each with weights of its own."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __call__(self) -> nn.Module:
        """A copy."""
        return copy.deepcopy(self._module)


def method(named: str | Recipe[Any]) -> tuple[str, Recipe[Any] | None]:
    """A method's name, and its recipe where it came with it."""
    return (named.name, named) if isinstance(named, Recipe) else (named, None)


def _plain(array: Any) -> NDArray[Any]:
    """Tensors, with channels first where they are images, and lists as arrays."""
    return (
        _last(np.asarray(array.detach().cpu())) if hasattr(array, "detach") else np.asarray(array)
    )


def _listed(samples: Any) -> list[NDArray[Any]]:
    pairs: Iterable[Any] = (samples[i] for i in range(len(samples)))
    try:
        x, y = zip(*((np.asarray(sample), int(label)) for sample, label in pairs), strict=True)
    except (TypeError, ValueError) as error:
        raise UsageError("data: its items are no pairs of a sample and a class's number") from error
    if len({each.shape for each in x}) > 1:
        raise UsageError("data: its samples differ in shape", "resize them in its transform")
    return [_last(np.stack(x)), np.array(y, np.int64)]


def _last(x: NDArray[Any]) -> NDArray[Any]:
    """Images of torch (channels first) as everybody else has them."""
    first = x.ndim == 4 and x.shape[1] in (1, 3) and x.shape[-1] not in (1, 3)
    return np.moveaxis(x, 1, -1) if first else x


def _samples(x: NDArray[Any]) -> NDArray[Any]:
    """Images from 0 to 1 as bytes; other numbers as they are."""
    if x.dtype.kind != "f" or x.ndim < 3 or not x.size:
        plain: NDArray[Any] = x.astype(np.float32) if x.dtype.kind == "f" else x
        return plain
    images = x.ndim == 4 and x.shape[-1] in (1, 3, 4)
    if images and x.min() >= 0 and x.max() <= 1:
        scaled: NDArray[Any] = np.rint(x * 255).astype(np.uint8)
        return scaled
    if images:
        raise UsageError(
            f"data: images with numbers from {x.min():.3g} to {x.max():.3g}",
            "from 0 to 1, or whole ones from 0 to 255; networks do their own scaling",
        )
    return x.astype(np.float32)
