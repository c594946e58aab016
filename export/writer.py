"""From a trained device to a bundle on disk: nothing is written that was not verified, and it is
read back first.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from edge_agent.inference.bundle import (
    CALIBRATION,
    DRIFT,
    Bundle,
    Manifest,
    Precision,
    Reading,
    Unknown,
    open_bundle,
)
from edge_agent.inference.classifier import Classifier
from edge_agent.inference.inputs import Ready, oddness, ready
from export import graph, mobile, verify
from export.graph import ExportError
from export.quantise import lowered
from export.reading import chosen
from export.source import Source, Trial
from export.verify import Check
from protofleet.errors import UsageError
from protofleet.exchange import archive, published
from protofleet.exchange.archive import MANIFEST, MODEL, PROTOTYPES, SCHEMA, SELFTEST, SUFFIX
from protofleet.exchange.published import About, Bank
from protofleet.settings.fields import to_plain
from protofleet.toolbox import heads
from protofleet.values.prototypes import Floats
from protofleet.wire import Envelope

# Of the self-test, as a share of the largest score: what other processors round differently.
TOLERANCE: Mapping[Precision, float] = {"fp32": 1e-3, "fp16": 1e-2, "int8": 1e-1}
CALIBRATION_BYTES = 256 * 1024  # of embeddings in a bundle, before they are packed


@dataclass(frozen=True)
class Wanted:
    """How to export."""

    precision: Precision = "fp32"
    smallest: bool = False  # keep int8 also where it is not faster
    by: str | None = None
    also: tuple[str, ...] = ()  # baked, fixed, raw
    ort: bool = False  # beside .onnx, for reduced builds
    calibration: bool = True  # embeddings of check samples, to tell unknown things by
    keep: float = 0.99
    # Its extractor is to be the fleet's: prototypes belong to it, not to the run.
    freeze: bool = False


@dataclass(frozen=True, eq=False)
class Exported:
    """A bundle's contents before they are written, and what was found out about them."""

    manifest: Manifest
    files: Mapping[str, bytes]
    report: Mapping[str, Any]


def export(source: Source, want: Wanted) -> Exported:
    """Everything in memory, verified."""
    reading, points = chosen(source.scorers, want.by)
    lineages = source.lineages(freeze=want.freeze)
    bank = Bank(About(lineages[0], source.contract.classes), points or heads.rows(source.weights))
    message = published.write(bank, _envelope(source), source.contract.wire)
    # As a device will have it: the wire rounds, and the graph is held to the rounded points.
    state = published.read(message)
    full = _full_graph(source, reading, state.bank, own_head=points is None)
    report: dict[str, Any] = {"fp32": _plain(full.check)}
    shipped = _Graph(full.model, "fp32", full.points, full.check)
    if want.precision != "fp32":
        lower = _lower(source, want.precision, full)
        report[want.precision] = _plain(lower.check)
        faster = lower.check.milliseconds < full.check.milliseconds
        if want.precision == "fp16" or want.smallest or faster:
            shipped = lower
        else:
            report["kept"] = "fp32: int8 is not faster here"
    notes = _notes(source, lineages[0], state.digest, shipped.precision)
    files = _files(want, shipped, message, notes)
    vectors = verify.patterns(source.contract.input)
    expected, feature = verify.scores(files[MODEL], vectors, shipped.points.inputs)
    # What was verified is what is written: names were shortened since.
    before, _ = verify.scores(shipped.model, vectors, shipped.points.inputs)
    _near(before, expected, MODEL)
    _same_answers(files, shipped.points, vectors, expected)
    files[SELFTEST] = _npz({"image": vectors, "score": expected, "feature": feature})
    threshold = None
    if want.calibration and len(source.check.x):
        threshold, files[CALIBRATION] = _calibrated(
            files[MODEL], source.check, shipped.points, reading.by, want.keep
        )
    report |= {
        "forms": {n: len(d) for n, d in files.items() if n.endswith(".onnx")},
        "inputs": _inputs(shipped.points),
    }
    files["report.json"] = _json(report)
    accuracy = {
        "float": full.check.accuracy_before,
        "bundle": shipped.check.accuracy_after,
        "samples": float(len(source.check.x)),
    }
    manifest = Manifest(
        schema=SCHEMA,
        input=source.contract.input,
        embedding=int(feature.shape[1]),
        classes=source.contract.classes,
        reading=reading,
        lineages=lineages,
        method=source.method,
        backbone=source.backbone,
        fleet=source.contract.fleet,
        run=source.contract.run,
        round=source.round,
        state=state.digest,
        precision=shipped.precision,
        tolerance=TOLERANCE[shipped.precision],
        files=_hashes(files),
        versions=_versions(),
        accuracy={name: share for name, share in accuracy.items() if share is not None},
        unknown=Unknown(want.keep, threshold),
    )
    return Exported(manifest, files, report)


@dataclass(frozen=True, eq=False)
class _FullGraph:
    """The graph in full precision, which agrees with the network, and what both were checked
    with.
    """

    model: bytes
    module: nn.Module
    bank: Bank
    reading: Reading
    points: Ready
    trial: Trial
    check: Check


@dataclass(frozen=True, eq=False)
class _Graph:
    """A graph as it may go into a bundle, with its own points."""

    model: bytes
    precision: Precision
    points: Ready
    check: Check
    drift: Mapping[str, Floats] = field(default_factory=dict)


def _full_graph(source: Source, reading: Reading, bank: Bank, *, own_head: bool) -> _FullGraph:
    points = ready(bank, reading)
    module = graph.classifying(source.net, source.contract.input, reading, own_head=own_head)
    trial = source.check if len(source.check.x) else _made_up(source)
    model = graph.to_onnx(module, source.contract.input, points.inputs)
    check = verify.check(model, module, trial, points, reading.by)
    verify.must_agree(check, MODEL)
    return _FullGraph(model, module, bank, reading, points, trial, check)


def _lower(source: Source, precision: Precision, full: _FullGraph) -> _Graph:
    calibration = source.calibration if len(source.calibration.x) else _made_up(source)
    lower = lowered(precision, full.model, calibration, full.points, full.bank, full.reading)
    check = verify.check(
        lower.model, full.module, full.trial, full.points, full.reading.by, lower.ready
    )
    return _Graph(lower.model, precision, lower.ready, check, lower.drift)


def _files(
    want: Wanted, shipped: _Graph, message: bytes, notes: Mapping[str, str]
) -> dict[str, bytes]:
    """The graph in every form that is asked for, and the state; the order is the manifest's."""
    files: dict[str, bytes] = {MODEL: shipped.model, PROTOTYPES: message}
    if shipped.drift:
        files[DRIFT] = _npz(shipped.drift)
    if "baked" in want.also:
        files["baked.onnx"] = graph.baked(shipped.model, shipped.points.inputs)
    if "fixed" in want.also:
        files["fixed.onnx"] = graph.fixed(shipped.model, len(shipped.points.rows))
    if "raw" in want.also:
        files |= _raw(shipped.points)
    files |= {
        name: graph.finished(data, notes) for name, data in files.items() if name.endswith(".onnx")
    }
    if want.ort:
        files |= mobile.to_ort(files[MODEL])
    return files


def write(exported: Exported, out: Path) -> Bundle:
    """A folder, or one file where `out` ends in .pfb: read back and self-tested before it takes its
    name.
    """
    if (
        out.exists()
        and not (out.is_file() and out.suffix == SUFFIX)
        and not (out / MANIFEST).exists()
        and any(out.iterdir())
    ):
        raise UsageError(f"{out} is not empty and holds no bundle", "name another --out")
    # Aside, and renamed when it stands: an export that fails leaves the old bundle where it is.
    new = out.with_name(f".{out.name}.new")
    _remove(new)
    contents = {MANIFEST: manifest_bytes(exported), **exported.files}
    new.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == SUFFIX:
        new.write_bytes(archive.pack(contents))
    else:
        new.mkdir()
        for name, data in contents.items():
            (new / name).write_bytes(data)
    # Read back from the disk by what a device reads it with, self-test included.
    try:
        bundle = open_bundle(new)
        Classifier(bundle)
    except Exception:
        _remove(new)
        raise
    _remove(out)
    new.rename(out)
    return bundle


def manifest_bytes(exported: Exported) -> bytes:
    """The manifest as it is written; its hash is the bundle's name."""
    return _json(to_plain(exported.manifest))


def _same_answers(files: Mapping[str, bytes], own: Ready, vectors: Any, expected: Any) -> None:
    """The other forms say what the first one does."""
    if "model.ort" in files:
        _near(
            verify.session(files["model.ort"]).run(["score"], {"image": vectors, **own.inputs})[0],
            expected,
            "model.ort",
        )
    if "baked.onnx" in files:
        live = verify.session(files["baked.onnx"])
        _near(live.run(["score"], {"image": vectors})[0], expected, "baked.onnx")
    if "fixed.onnx" in files:
        live = verify.session(files["fixed.onnx"])
        score = np.concatenate(
            [live.run(["score"], {"image": one[None], **own.inputs})[0] for one in vectors]
        )
        _near(score, expected, "fixed.onnx")


def _near(score: Any, expected: Any, what: str) -> None:
    apart = float(np.abs(score - expected).max() / np.abs(expected).max())
    if not apart <= verify.LARGEST_DIFFERENCE:
        raise ExportError(
            f"{what} differs from the verified graph by {apart:.1e} of the largest score"
        )


def _raw(own: Ready) -> dict[str, bytes]:
    """The graph's inputs as plain little-endian float32, for clients without CBOR, and the class of
    each row.
    """
    rows = {"classes": own.classes, "rows": own.rows.tolist(), "shapes": _inputs(own)}
    return {f"{n}.f32": a.astype("<f4").tobytes() for n, a in own.inputs.items()} | {
        "rows.json": _json(rows)
    }


def _calibrated(
    model: bytes, check: Trial, own: Ready, by: str, keep: float
) -> tuple[float, bytes]:
    """Embeddings of check samples in half precision, and the threshold they give."""
    # So many that the file stays within its bytes: at least 16, at most 256.
    width = max(1, verify.scores(model, check.x[:1], own.inputs)[1].shape[1])
    score, features = verify.scores(
        model, check.x[: max(16, min(256, CALIBRATION_BYTES // (2 * width)))], own.inputs
    )
    threshold = float(np.quantile(oddness(features, own.by_class(score, by), by), keep))
    return threshold, _npz({"features": features.astype(np.float16)})


def _made_up(source: Source) -> Trial:
    x = verify.patterns(source.contract.input, 64)
    return Trial(x, np.full(len(x), -1, np.int64))


def _envelope(source: Source) -> Envelope:
    contract = source.contract
    return Envelope(
        "global", contract.fleet, contract.run, round=source.round, method=source.method
    )


def _notes(source: Source, lineage: str, state: str, precision: str) -> dict[str, str]:
    return {
        "protofleet.schema": SCHEMA,
        "protofleet.method": source.method,
        "protofleet.lineage": lineage,
        "protofleet.state": state,
        "protofleet.precision": precision,
        "protofleet.classes": json.dumps(source.contract.classes, ensure_ascii=False),
    }


def _inputs(points: Ready) -> dict[str, list[int]]:
    return {name: list(array.shape) for name, array in points.inputs.items()}


def _versions() -> dict[str, str]:
    return {
        name: version(name)
        for name in ("protofleet", "torch", "onnx", "onnxscript", "onnxruntime", "numpy")
    }


def _hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: sha256(data).hexdigest() for name, data in files.items()}


def _plain(check: Check) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(check)
    return plain


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode()


def _npz(arrays: Mapping[str, Any]) -> bytes:
    """An .npz whose bytes depend on the arrays alone."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, array in arrays.items():
            one = io.BytesIO()
            np.lib.format.write_array(one, np.ascontiguousarray(array), allow_pickle=False)
            packed.writestr(
                # A fixed date: the same arrays must give the same hash.
                zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)),
                one.getvalue(),
                zipfile.ZIP_DEFLATED,
            )
    return out.getvalue()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
