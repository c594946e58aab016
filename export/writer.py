"""From a trained device to a bundle on disk: nothing is written that was not verified, and it is
read back first.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from edge_agent.inference.bundle import (
    CALIBRATION,
    DRIFT,
    Bundle,
    Manifest,
    Precision,
    Unknown,
    open_bundle,
)
from edge_agent.inference.classifier import Classifier
from edge_agent.inference.inputs import Ready, oddness, ready
from export import graph, mobile, verify
from export.graph import ExportError
from export.quantise import Lower, lowered
from export.reading import chosen
from export.source import Source, Trial
from export.verify import Check
from protofleet.errors import UsageError
from protofleet.exchange import archive, published
from protofleet.exchange.archive import MANIFEST, MODEL, PROTOTYPES, SCHEMA, SELFTEST, SUFFIX
from protofleet.exchange.published import About, Bank
from protofleet.settings.fields import to_plain
from protofleet.toolbox import heads
from protofleet.wire import Envelope

TOLERANCE: Mapping[Precision, float] = {"fp32": 1e-3, "fp16": 1e-2, "int8": 1e-1}
CALIBRATION_BYTES = 256 * 1024


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
    freeze: bool = (
        False  # its extractor is to be the fleet's: prototypes belong to it, not to the run
    )


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
    state = published.read(message)  # as a device will have it
    made = ready(state.bank, reading)
    module = graph.classifying(source.net, source.contract.input, reading)
    trial = source.check if len(source.check.x) else _made_up(source)
    model = graph.to_onnx(module, source.contract.input, made.inputs)
    full = verify.check(model, module, trial, made, reading.by)
    verify.must_agree(full, MODEL)
    report: dict[str, Any] = {"fp32": _plain(full)}
    lower: Lower | None = None
    own, at, precision = made, full, Wanted.precision
    if want.precision != "fp32":
        lower, found = _lower(
            source, want.precision, model, module, trial, made, state.bank, reading
        )
        report[want.precision] = _plain(found)
        if want.precision == "fp16" or want.smallest or found.milliseconds < full.milliseconds:
            model, own, at, precision = lower.model, lower.ready, found, want.precision
        else:
            report["kept"] = "fp32: int8 is not faster here"
            lower = None
    files: dict[str, bytes] = {MODEL: model, PROTOTYPES: message}
    if lower is not None and lower.drift:
        files[DRIFT] = _npz(lower.drift)
    if "baked" in want.also:
        files["baked.onnx"] = graph.baked(model, own.inputs)
    if "fixed" in want.also:
        files["fixed.onnx"] = graph.fixed(model, len(own.rows))
    if "raw" in want.also:
        files |= _raw(own)
    notes = _notes(source, lineages[0], state.digest, precision)
    files |= {
        name: graph.finished(data, notes) for name, data in files.items() if name.endswith(".onnx")
    }
    if want.ort:
        files |= mobile.to_ort(files[MODEL])
    vectors = verify.patterns(source.contract.input)
    expected, feature = verify.scores(files[MODEL], vectors, own.inputs)
    _near(
        verify.scores(model, vectors, own.inputs)[0], expected, MODEL
    )  # what was verified is what is written
    _same_answers(files, own, vectors, expected)
    files[SELFTEST] = _npz({"image": vectors, "score": expected, "feature": feature})
    threshold = None
    if want.calibration and len(source.check.x):
        threshold, files[CALIBRATION] = _calibrated(
            files[MODEL], source.check, own, reading.by, want.keep
        )
    report |= {
        "forms": {n: len(d) for n, d in files.items() if n.endswith(".onnx")},
        "inputs": _inputs(own),
    }
    files["report.json"] = _json(report)
    accuracy = {
        name: value
        for name, value in (("float", full.accuracy_before), ("bundle", at.accuracy_after))
        if value is not None
    }
    manifest = Manifest(
        SCHEMA,
        source.contract.input,
        int(feature.shape[1]),
        source.contract.classes,
        reading,
        lineages,
        source.method,
        source.backbone,
        source.contract.fleet,
        source.contract.run,
        source.round,
        state.digest,
        precision,
        TOLERANCE[precision],
        _hashes(files),
        _versions(),
        accuracy | {"samples": float(len(source.check.x))},
        Unknown(want.keep, threshold),
    )
    return Exported(manifest, files, report)


def write(made: Exported, out: Path) -> Bundle:
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
    new = out.with_name(f".{out.name}.new")
    _remove(new)
    contents = {MANIFEST: manifest_bytes(made), **made.files}
    new.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == SUFFIX:
        new.write_bytes(archive.pack(contents))
    else:
        new.mkdir()
        for name, data in contents.items():
            (new / name).write_bytes(data)
    try:
        bundle = open_bundle(new)
        Classifier(bundle)
    except Exception:
        _remove(new)
        raise
    _remove(out)
    new.rename(out)
    return bundle


def manifest_bytes(made: Exported) -> bytes:
    """The manifest as it is written; its hash is the bundle's name."""
    return _json(to_plain(made.manifest))


def _lower(
    source: Source,
    precision: Precision,
    model: bytes,
    module: Any,
    trial: Trial,
    made: Ready,
    bank: Bank,
    reading: Any,
) -> tuple[Lower, Check]:
    calibration = source.calibration if len(source.calibration.x) else _made_up(source)
    lower = lowered(precision, model, calibration, made, bank, reading)
    return lower, verify.check(lower.model, module, trial, made, reading.by, lower.ready)


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
        got = np.concatenate(
            [live.run(["score"], {"image": one[None], **own.inputs})[0] for one in vectors]
        )
        _near(got, expected, "fixed.onnx")


def _near(got: Any, due: Any, what: str) -> None:
    apart = float(np.abs(got - due).max() / np.abs(due).max())
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


def _inputs(made: Ready) -> dict[str, list[int]]:
    return {name: list(array.shape) for name, array in made.inputs.items()}


def _versions() -> dict[str, str]:
    return {
        name: version(name)
        for name in ("protofleet", "torch", "onnx", "onnxscript", "onnxruntime", "numpy")
    }


def _hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: sha256(data).hexdigest() for name, data in files.items()}


def _plain(found: Check) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(found)
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
