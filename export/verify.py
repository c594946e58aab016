"""Whether a graph computes what the network does, how well it classifies and what it costs: known
before it ships.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.inference.inputs import Ready
from edge_agent.inference.session import BLOCK, runtime
from export.forms import ExportError, finished
from export.trial import Trial
from protofleet.contract import Input
from protofleet.util.seeds import generator
from protofleet.values.prototypes import Floats

if TYPE_CHECKING:
    from torch import nn

LARGEST_DIFFERENCE = 1e-4  # of the largest score, for a graph in full precision
VECTORS = 16  # of the self-test: few, since a device computes them at every start


@dataclass(frozen=True)
class Check:
    """One graph beside the network it came from."""

    samples: int
    difference: float  # largest, as a share of the largest score
    agreement: float  # share of samples with the same class
    agreement_clear: float  # of those alone whose margin is more than the difference
    accuracy_before: float | None
    accuracy_after: float | None
    bytes: int
    milliseconds: float  # one sample, one thread, CPU time, the fastest


@dataclass(frozen=True)
class FeatureCheck:
    """One graph beside the network it came from, where there are no classes yet."""

    samples: int
    difference: float  # largest, as a share of the largest feature
    cosine: float  # the least, of a sample's two features
    bytes: int
    milliseconds: float  # one sample, one thread, CPU time, the fastest


def session(model: bytes) -> Any:
    """onnxruntime on one thread."""
    ort = runtime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def scores(model: bytes, x: NDArray[Any], inputs: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """What the graph says of these samples: scores and features."""
    live = session(model)
    blocks = [
        live.run(["score", "feature"], {"image": x[i : i + BLOCK], **inputs})
        for i in range(0, len(x), BLOCK)
    ]
    score, feature = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return score, feature


def by_torch(
    module: nn.Module, x: NDArray[Any], inputs: Mapping[str, Floats]
) -> tuple[Floats, Floats]:
    """What the network says of them."""
    import torch

    points = [torch.from_numpy(np.array(array)) for array in inputs.values()]
    with torch.inference_mode():
        blocks = [
            module(torch.from_numpy(x[i : i + BLOCK]), *points) for i in range(0, len(x), BLOCK)
        ]
    score, feature = (torch.cat(parts).numpy() for parts in zip(*blocks, strict=True))
    return score, feature


def check(
    model: bytes, module: nn.Module, trial: Trial, points: Ready, by: str, own: Ready | None = None
) -> Check:
    """Both on the same samples; `own` are the graph's own points where they are not the
    network's.
    """
    expected = points.by_class(by_torch(module, trial.x, points.inputs)[0], by)
    computed = points.by_class(scores(model, trial.x, (own or points).inputs)[0], by)
    apart, largest = (float(np.abs(s).max()) for s in (computed - expected, expected))
    # So small that points of them are nothing in half precision.
    if largest == 0:
        raise ExportError(
            "every score is nothing: the features are too small for half precision",
            "train with --wire float32",
        )
    same = expected.argmax(1) == computed.argmax(1)
    ranked = np.sort(expected, axis=1)
    # Two scores may each be off by `apart`: a margin of more than twice that cannot turn over.
    clear = (
        ranked[:, -1] - ranked[:, -2] > 2 * apart
        if ranked.shape[1] > 1
        else np.ones(len(same), np.bool_)
    )
    labelled = trial.y >= 0
    before, after = (points.present[s.argmax(1)] == trial.y for s in (expected, computed))
    return Check(
        samples=len(trial.x),
        difference=apart / largest,
        agreement=float(same.mean()),
        agreement_clear=float(same[clear].mean()) if clear.any() else 1.0,
        accuracy_before=float(before[labelled].mean()) if labelled.any() else None,
        accuracy_after=float(after[labelled].mean()) if labelled.any() else None,
        bytes=len(finished(model, {})),
        milliseconds=latency(model, trial.x[:1], (own or points).inputs),
    )


def check_features(
    model: bytes, expected: Floats, trial: Trial, inputs: Mapping[str, Floats]
) -> FeatureCheck:
    """A graph's features beside those that are due."""
    computed = scores(model, trial.x, inputs)[1].astype(np.float64)
    due = expected.astype(np.float64)
    lengths = np.linalg.norm(computed, axis=1) * np.linalg.norm(due, axis=1)
    cosine = (computed * due).sum(1) / np.maximum(lengths, 1e-30)
    largest = float(np.abs(due).max())
    if largest == 0:
        raise ExportError("every feature is nothing", "is the scale the right one?")
    return FeatureCheck(
        samples=len(trial.x),
        difference=float(np.abs(computed - due).max()) / largest,
        cosine=float(cosine.min()),
        bytes=len(finished(model, {})),
        milliseconds=latency(model, trial.x[:1], inputs),
    )


def must_agree(check: Check | FeatureCheck, what: str) -> None:
    """A graph in full precision that differs is an error of the export, and is not written."""
    turned = isinstance(check, Check) and check.agreement_clear < 1
    # `not … <=`: a difference that is not a number must not pass.
    if not check.difference <= LARGEST_DIFFERENCE or turned:
        of = "score" if isinstance(check, Check) else "feature"
        raise ExportError(
            f"{what} differs from the network by {check.difference:.1e} of the largest {of}",
            "this network cannot be exported as it is",
        )


def latency(
    model: bytes, one: NDArray[Any], inputs: Mapping[str, Floats], blocks: int = 8
) -> float:
    """Milliseconds of CPU for one sample."""
    live, feeds = session(model), {"image": one, **inputs}
    live.run(["score"], feeds)  # the first call allocates
    began = time.process_time()
    live.run(["score"], feeds)
    # A block of 20 ms is long beside the clock's step. The fastest of some blocks is the graph's
    # own time: whatever else the machine did made the others slower.
    repeats = max(1, int(0.02 / max(time.process_time() - began, 1e-5)))
    best = float("inf")
    for _ in range(blocks):
        began = time.process_time()
        for _ in range(repeats):
            live.run(["score"], feeds)
        best = min(best, (time.process_time() - began) / repeats)
    return best * 1e3


def patterns(kind: Input, n: int = VECTORS) -> NDArray[Any]:
    """Made-up inputs, the same everywhere: a bundle must not carry anybody's pictures."""
    rng = generator("export", "self-test", n)
    if kind.kind != "image":
        mean, std = (
            np.asarray(kind.mean or 0.0, np.float32),
            np.asarray(kind.std or 1.0, np.float32),
        )
        return (rng.normal(size=(n, *kind.shape)).astype(np.float32) * std + mean).astype(
            np.float32
        )
    height, width, channels = kind.shape
    # Coarse squares and not noise: noise averages out in a network's first layers, and every score
    # would be the same.
    coarse = rng.integers(0, 256, (n, 8, 8, channels), dtype=np.uint8)
    rows, columns = np.arange(height) * 8 // height, np.arange(width) * 8 // width
    return np.ascontiguousarray(coarse[:, rows][:, :, columns])
