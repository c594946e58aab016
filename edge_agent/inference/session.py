"""An extractor ready to run: a bundle's graph in a session, with what it takes to make published
points its inputs.

Nothing in here changes once it is made; `edge_agent.inference.classifier` holds one of these and
replaces it as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Timer
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.inference.bundle import CALIBRATION, DRIFT, Bundle
from edge_agent.inference.inputs import (
    Ready,
    Scores,
    drift_of,
    oddness,
    precisely,
    ready,
    scores_of,
)
from protofleet.errors import DataError, FleetError
from protofleet.exchange import graph
from protofleet.exchange.archive import SELFTEST, BundleError
from protofleet.exchange.published import Bank
from protofleet.statistics.prior import OwnPrior
from protofleet.statistics.reliability import Calibration, softmax
from protofleet.util.allocator import room_to_load
from protofleet.values.prototypes import Floats

Images = NDArray[Any]
Probabilities = NDArray[np.float64]
NO_MEMORY = "there is not enough memory"
LARGEST = 1e30  # what a graph is given: of more no score is a number
BLOCK = 64  # samples at once: beyond it memory grows and nothing gets faster
PATIENCE = 300.0  # seconds for one block, on however small and busy a machine
BLOCK_PIXELS = 1 << 15  # and of large images fewer: what layers hold grows with their size


class Mismatch(FleetError):
    """Prototypes that mean nothing to this bundle's extractor."""

    code = "other-lineage"


@dataclass(frozen=True, eq=False)
class Loaded:
    """Everything about classes that one classification reads; replaced as a whole."""

    bank: Bank
    ready: Ready
    values: Mapping[str, Any]  # the same as onnxruntime takes it
    state: str
    threshold: float | None  # where the check samples that came along cut

    @property
    def labels(self) -> list[str]:
        """The names of the classes that have points: a score each."""
        return [self.bank.about.classes[c] for c in self.ready.present]

    @property
    def tells_unknown(self) -> bool:
        """Whether there is anything to tell unknown things by."""
        return self._calibrated is not None or self.threshold is not None

    @property
    def _calibrated(self) -> Calibration | None:
        sure = self.bank.about.calibration
        return None if sure is None or sure.usual is None else sure

    def probabilities(self, scores: Scores) -> Probabilities | None:
        """Of each class, where the fleet calibrated these scores."""
        sure = self.bank.about.calibration
        return None if sure is None or not scores.shape[1] else sure.shares(scores)

    def unknown(self, features: Floats, scores: Scores) -> NDArray[np.bool_] | None:
        """What is like no class: by the fleet's calibration, else by the check samples."""
        if not scores.shape[1]:
            return None
        if (sure := self._calibrated) is not None:
            return sure.unknown(scores)
        if self.threshold is None:
            return None
        return np.asarray(oddness(features, scores, self.bank.kind) > self.threshold)


@dataclass(frozen=True, eq=False)
class Answer:
    """What was seen in some samples. Scores, distances and probabilities have a column for each of
    `labels`, best by highest score.
    """

    labels: list[str]
    scores: Scores
    features: Floats
    best: list[str | None]  # None: unknown, where the classifier was asked to tell
    state: str
    probabilities: Probabilities | None = None  # None: nobody calibrated these scores
    unknown: NDArray[np.bool_] | None = None  # None: there is nothing to tell it by

    @property
    def distances(self) -> Scores:
        """Squared distances to each class, where the bundle compares with prototypes."""
        # The term that the graph leaves out (see `inputs._nearest`); rounding may make it negative.
        squared: Scores = np.maximum((self.features**2).sum(1)[:, None] - self.scores, 0)
        return squared

    def top(self, row: int, n: int) -> list[tuple[str, float]]:
        """The best classes of one sample, with their scores."""
        order = np.argsort(-self.scores[row], kind="stable")[:n]
        return [(self.labels[i], float(self.scores[row, i])) for i in order]


class Engine:
    """A bundle's extractor in a session."""

    def __init__(self, bundle: Bundle, threads: int, *, unknown: bool) -> None:
        self._runtime = runtime()
        self._session = _session(self._runtime, bundle, threads)
        # The session holds the graph in a form of its own: its bytes would be in memory twice.
        self.bundle = replace(
            bundle, files={n: d for n, d in bundle.files.items() if not n.endswith(".onnx")}
        )
        self.unknown = unknown
        self._drift = _drift(self.bundle)
        self._calibration = _calibration(self.bundle) if unknown else None

    def load(self, bank: Bank, state: str) -> Loaded:
        """Points as inputs of this graph; what does not fit is a `Mismatch`."""
        manifest = self.bundle.manifest
        if bank.about.lineage not in manifest.lineages:
            other = bank.about.bundle
            raise Mismatch(
                f"these prototypes are of {bank.about.lineage[:60]}, "
                f"this bundle is of {manifest.lineages[0][:60]}",
                f"fetch the bundle {other[:16]}"
                if other
                else "take the bundle that was exported with them",
            )
        if not manifest.reading.takes(bank.kind):
            raise Mismatch(
                f"this bundle classifies by {manifest.reading.by}, these are {bank.kind}"
            )
        points = ready(bank, manifest.reading, self._drift)
        # A Gaussian has a row for the squares and one for the features themselves.
        rows_each = 2 if manifest.reading.by == "mixtures" else 1
        dim = points.inputs["proto_w"].shape[0] // rows_each
        if dim != manifest.embedding:
            raise Mismatch(
                f"these points have {dim} numbers each, this bundle's features {manifest.embedding}"
            )
        if not all(np.all(np.abs(array) <= LARGEST) for array in points.inputs.values()):
            raise Mismatch("points so large, or so narrow, that no score of them is a number")
        # An extractor that came without classes may lose all of them again.
        if not len(points.present) and manifest.classes:
            raise Mismatch("there is not one class in these prototypes")
        # Handed to the runtime once a state and not once a call.
        values = {
            name: self._runtime.OrtValue.ortvalue_from_numpy(array)
            for name, array in points.inputs.items()
        }
        return Loaded(bank, points, values, state, self._threshold(points, bank.kind))

    def must_tell_unknown(self, loaded: Loaded) -> None:
        """An error where that was asked for and cannot be done; no class is no question yet."""
        if self.unknown and loaded.labels and not loaded.tells_unknown:
            raise BundleError(
                "this bundle holds nothing to tell unknown things by",
                "export it with check samples",
            )

    def look(self, images: Images, loaded: Loaded, prior: OwnPrior | None = None) -> Answer:
        """What these classes make of samples, where some are likely beforehand."""
        blocks = [self._run(block, loaded) for block in self._blocks(images)]
        score, features = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        calibration = loaded.bank.about.calibration if loaded.bank.kind == "head" else None
        if calibration is not None:
            score = precisely(features, loaded.ready)
        per_class, labels = loaded.ready.by_class(score, loaded.bank.kind), loaded.labels
        sure, unknown = loaded.probabilities(per_class), loaded.unknown(features, per_class)
        if prior is not None and calibration is not None and labels:
            expected = prior.applied(per_class, labels, calibration.temperature)
            if expected is not per_class:
                per_class, sure = expected, softmax(expected)
        best: list[str | None] = [None] * len(score)
        if labels:
            none = unknown if self.unknown and unknown is not None else np.zeros(len(score))
            best = [
                None if no else labels[i] for i, no in zip(per_class.argmax(1), none, strict=True)
            ]
        return Answer(labels, per_class, features, best, loaded.state, sure, unknown)

    def as_published(self, names: Sequence[str], means: Floats) -> Floats:
        """Means of what this extractor sees as the float extractor would see them, which is what
        the fleet shares.
        """
        shared: Floats = (means - drift_of(names, self._drift)).astype(np.float32)
        return shared

    def self_test(self) -> None:
        """The exporter's vectors, with the prototypes that came along, must give the exporter's
        scores.
        """
        vectors, published = self.bundle.arrays(SELFTEST), self.bundle.published
        loaded = self.load(published.bank, published.digest)
        # An extractor without classes has features alone to be tested by.
        which = "score" if loaded.labels else "feature"
        if not {"image", which} <= vectors.keys():
            raise BundleError(f"{SELFTEST}: inputs and {which}s are due")
        expected = vectors[which]
        if not expected.size or expected.dtype.kind != "f":
            raise BundleError(f"{SELFTEST}: there is nothing to test by")
        try:
            blocks = [self._run(block, loaded) for block in self._blocks(vectors["image"])]
        except DataError as error:
            raise BundleError(f"{SELFTEST}: {error}") from None
        computed = np.concatenate([block[which == "feature"] for block in blocks])
        apart = float("inf")
        if computed.shape == expected.shape:
            with np.errstate(all="ignore"):
                apart = float(np.abs(computed - expected).max() / np.abs(expected).max())
        # `not apart <=`: scores that are not a number compare as false, and must fail.
        if not apart <= self.bundle.manifest.tolerance:
            raise BundleError(
                f"the self-test fails: {which}s differ by {apart:.1e} of the largest",
                "this device computes differently",
            )

    def _threshold(self, points: Ready, by: str) -> float | None:
        """Where the farthest of the calibration samples lie with these prototypes; nothing where
        nobody asks.
        """
        if self._calibration is None or not len(self._calibration) or not len(points.present):
            return None
        # Anew for every state, with the exporter's embeddings: a cut that was right for the old
        # prototypes says nothing about new ones, and the device may have no samples of its own.
        features = self._calibration.astype(np.float32)
        odd = oddness(features, points.by_class(scores_of(features, points), by), by)
        return float(np.quantile(odd, self.bundle.manifest.unknown.keep))

    def _blocks(self, images: Images) -> Iterator[Images]:
        kind = self.bundle.manifest.input
        dtype = np.uint8 if kind.kind == "image" else np.float32
        if images.shape[1:] != kind.shape or images.dtype != dtype:
            shape = "×".join(map(str, kind.shape))
            raise DataError(
                f"samples of {images.dtype} {list(images.shape)}",
                f"this bundle takes {np.dtype(dtype).name} N×{shape}",
            )
        size = block_of(kind.shape)
        # One empty block where there are no samples: answers of no rows have the right columns.
        for start in range(0, max(len(images), 1), size):
            yield np.ascontiguousarray(images[start : start + size])

    def _run(self, images: Images, loaded: Loaded) -> tuple[Scores, Floats]:
        inputs = {"image": self._runtime.OrtValue.ortvalue_from_numpy(images), **loaded.values}
        options = self._runtime.RunOptions()
        # What a graph costs may depend on the picture. The runtime looks between two operators.
        watch = Timer(PATIENCE, setattr, (options, "terminate", True))
        watch.daemon = True
        watch.start()
        try:
            names = ["score", "feature"]
            score, feature = self._session.run_with_ort_values(names, inputs, options)
        except Exception as error:  # onnxruntime raises a class of its own for each of its codes
            words = f"more than {PATIENCE:g} s" if options.terminate else _line(error)
            raise BundleError(f"the graph cannot be run: {words}") from None
        finally:
            watch.cancel()
        sizes = (
            (len(images), *loaded.values["proto_b"].shape()),
            (
                len(images),
                self.bundle.manifest.embedding,
            ),
        )
        if (tuple(score.shape()), tuple(feature.shape())) != sizes:
            raise BundleError("the graph gives scores or features of other sizes than a bundle's")
        return score.numpy(), feature.numpy()


def block_of(shape: Sequence[int]) -> int:
    """How many samples of this shape are computed at once."""
    pixels = shape[0] * shape[1] if len(shape) == 3 else 1
    return max(1, min(BLOCK, BLOCK_PIXELS // pixels))


def built(bundle: Bundle, threads: int, *, unknown: bool, check: bool = True) -> Engine:
    """A bundle's engine, its self-test run."""
    with room_to_load():
        engine = Engine(bundle, threads, unknown=unknown)
        if check:
            engine.self_test()
    return engine


def runtime() -> ModuleType:
    """onnxruntime, told before its import to keep to itself: since 1.29 it writes telemetry to the
    home folder.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    module: ModuleType = onnxruntime
    return module


def _drift(bundle: Bundle) -> dict[str, Floats]:
    """How far classes are moved, by name; under the empty one the mean, for classes that came
    later.
    """
    drift = bundle.arrays(DRIFT)
    shape = (bundle.manifest.embedding,)
    fits = all(row.shape == shape and row.dtype.kind == "f" for row in drift.values())
    if drift and not ("" in drift and fits):
        raise BundleError(f"{DRIFT}: a row of the feature's size is due for each class, and a mean")
    return drift


def _calibration(bundle: Bundle) -> Floats | None:
    features = bundle.arrays(CALIBRATION).get("features")
    if features is None:
        return None
    if features.dtype.kind != "f" or features.shape[1:] != (bundle.manifest.embedding,):
        raise BundleError(f"{CALIBRATION}: rows of the feature's size are due")
    return features


def _line(error: Exception) -> str:
    words = " ".join(str(error).split())
    # onnxruntime has no class of its own for this.
    if isinstance(error, MemoryError) or any(text in words for text in ("bad_alloc", "allocate ")):
        return NO_MEMORY
    return words[:160]


def _session(ort: Any, bundle: Bundle, threads: int) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # fatal only: what goes wrong is our error, in one line
    # What was walked is what is loaded: onnxruntime would take the same bytes for its own format.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    graph.check(bundle.model)
    try:
        # Without its second try with the same provider, which it announces on standard output.
        session = ort.InferenceSession(
            bundle.model, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # onnxruntime raises a class of its own for each of its codes
        raise BundleError(f"the graph cannot be loaded: {_line(error)}") from None
    manifest = bundle.manifest
    # The hashes hold the graph to the manifest's word, not the manifest to the graph's.
    inputs = {node.name: node.shape for node in session.get_inputs()}
    outputs = {node.name: node.shape for node in session.get_outputs()}
    centre = {"proto_c"} if manifest.reading.by == "mixtures" else set()
    if inputs.keys() != {"image", "proto_w", "proto_b"} | centre or outputs.keys() != {
        "score",
        "feature",
    }:
        raise BundleError("the graph has other inputs or outputs than a bundle's")
    if (
        outputs["feature"][1:] != [manifest.embedding]
        or tuple(inputs["image"][1:]) != manifest.input.shape
    ):
        raise BundleError(
            f"the graph's sizes are not the manifest's: features of {outputs['feature'][1:]}"
        )
    return session
