"""A device's samples in memory, and the batches of a training pass made from them in blocks.

A pass is drawn at once (order, crops, flips) from one named generator and made in blocks of some
thousand samples, so that a step costs a slice: no loader, no per-sample Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protofleet.contract import Augment, Input, Numerics
from protofleet.recipe import Batch

_BLOCK = 4096  # samples prepared at once: enough that Python's share of a step is a slice
_PAD = 4  # pixels on each side before a crop, as ResNet's authors augment CIFAR (He et al. 2015)
_SEEN_AT_ONCE = 128  # samples whose activations still fit a processor's cache


@dataclass(frozen=True, eq=False)
class SampleTensors:
    """Inputs as they are stored (images: uint8, N×C×H×W) and labels."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    @staticmethod
    def of(x: NDArray[np.generic], y: NDArray[np.int64], kind: Input) -> SampleTensors:
        """From the arrays of a data set (images H×W×C)."""
        inputs = torch.from_numpy(np.moveaxis(x, 3, 1) if kind.kind == "image" else x)
        # A clone, because strides of a single channel pass for any layout and would choose the
        # convolution by accident.
        return SampleTensors(
            inputs.clone(memory_format=torch.contiguous_format),
            torch.from_numpy(np.ascontiguousarray(y, np.int64)),
        )


@dataclass(frozen=True, eq=False)
class LocalData:
    """What one device holds."""

    train: SampleTensors
    validation: SampleTensors
    test: SampleTensors


def prepare(x: Tensor, kind: Input, numerics: Numerics) -> Tensor:
    """Stored inputs as the network takes them: float32, normalised, in the settled layout and
    place.
    """
    x = x.to(numerics.device)
    # In place from here on, so the first step must make a copy: float32 inputs would otherwise be
    # normalised where they are stored, again in every pass.
    x = x.to(torch.float32).div_(255.0) if kind.kind == "image" else x.to(torch.float32, copy=True)
    if kind.mean:
        shape = (1, -1, 1, 1) if kind.kind == "image" else (-1,)
        x.sub_(torch.tensor(kind.mean, device=x.device).view(shape))
        x.div_(torch.tensor(kind.std, device=x.device).view(shape))
    if numerics.layout == "channels-last" and x.ndim == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    return x


def training_batches(
    samples: SampleTensors,
    kind: Input,
    numerics: Numerics,
    batch_size: int,
    augment: Augment,
    rng: np.random.Generator,
    *,
    drop_last: bool = False,
) -> Iterator[Batch]:
    """One pass in random order. A last batch of a single sample is left out: batch statistics need
    two; with `drop_last` every one that is not full, unless it is the only one.
    """
    # All draws of a pass are made here, in this order and before the first block, so that the size
    # of a block changes no bit.
    order = rng.permutation(len(samples))
    order = order[: len(order) - _left_out(len(order), batch_size, drop_last)]
    x = samples.x
    crop = augment == "crop-flip" and kind.kind == "image"
    if crop:
        # Every window of the padded images as a view: a crop is then one lookup, with no loop over
        # the samples.
        height, width = x.shape[2:]
        padded = torch.nn.functional.pad(x, (_PAD,) * 4)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)
        rows, columns = torch.from_numpy(rng.integers(0, 2 * _PAD + 1, (2, len(order))))
        flips = torch.from_numpy(rng.random(len(order)) < 0.5)
    # Whole batches: one that crossed two blocks would have to be put together.
    block = max(_BLOCK // batch_size, 1) * batch_size
    for start in range(0, len(order), block):
        at = torch.from_numpy(order[start : start + block])
        if crop:
            here = slice(start, start + block)
            raw = windows[at, :, rows[here], columns[here]]
            raw = torch.where(flips[here].view(-1, 1, 1, 1), raw.flip(3), raw)
        else:
            raw = x[at]
        ready, labels = prepare(raw, kind, numerics), samples.y[at].to(numerics.device)
        for i in range(0, len(at), batch_size):
            yield Batch(ready[i : i + batch_size], labels[i : i + batch_size])


def smallest_batch(count: int, batch_size: int, *, drop_last: bool = False) -> int:
    """How many samples the smallest batch of a pass over so many has."""
    whole = count - _left_out(count, batch_size, drop_last)
    return whole % batch_size or min(whole, batch_size)


def _left_out(count: int, batch_size: int, drop_last: bool) -> int:
    rest = count % batch_size
    if drop_last and count > batch_size:
        return rest
    return 1 if rest == 1 and count > 1 and batch_size > 1 else 0


def feature_batches(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    numerics: Numerics,
    batch_size: int,
    rng: np.random.Generator,
) -> Iterator[Batch]:
    """One pass in random order over features that a recipe brought itself."""
    order = rng.permutation(len(y))
    ready = torch.from_numpy(np.asarray(x, np.float32)[order]).to(numerics.device)
    labels = torch.from_numpy(np.asarray(y, np.int64)[order]).to(numerics.device)
    for i in range(0, len(order), batch_size):
        yield Batch(ready[i : i + batch_size], labels[i : i + batch_size])


def blocks(samples: SampleTensors, kind: Input, numerics: Numerics) -> Iterator[Tensor]:
    """Everything in order, in batches whose activations still fit a processor's cache: evaluation
    and summaries.

    Images come channels-last whatever training uses: pooling is vectorised there, and it is a fixed
    rule. None at all are one batch of none: what is seen of them has its widths all the same.
    """
    fixed = replace(numerics, layout="channels-last")
    for start in range(0, max(len(samples), 1), _SEEN_AT_ONCE):
        yield prepare(samples.x[start : start + _SEEN_AT_ONCE], kind, fixed)
