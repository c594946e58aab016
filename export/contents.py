"""A bundle's contents before they are written: a verified graph in every form that is asked for,
the self-test, and the manifest over all of it. Onnx alone, no torch.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.inference.bundle import (
    CALIBRATION,
    DRIFT,
    TOLERANCE,
    Manifest,
    Precision,
    Unknown,
)
from edge_agent.inference.inputs import Ready, oddness
from export import forms, mobile, verify
from export.forms import ExportError
from export.trial import Trial
from export.verify import Check, FeatureCheck
from protofleet.exchange import published
from protofleet.exchange.archive import MODEL, PROTOTYPES, REPORT, SCHEMA, SELFTEST
from protofleet.settings.fields import to_plain
from protofleet.statistics.reliability import Calibration
from protofleet.values.prototypes import Floats

CALIBRATION_BYTES = 256 * 1024  # of embeddings in a bundle, before they are packed
SEEN = "seen.f32"  # the same embeddings for clients that read no .npz
INVOLVED = ("protofleet", "torch", "onnx", "onnxscript", "onnxruntime", "numpy")


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


@dataclass(frozen=True, eq=False)
class Form:
    """A graph as it may go into a bundle, with its own points."""

    model: bytes
    precision: Precision
    points: Ready
    check: Check | FeatureCheck
    drift: Mapping[str, Floats] = field(default_factory=dict)


def chosen_form(full: Form, lower: Form | None, want: Wanted) -> tuple[Form, dict[str, Any]]:
    """Which of the two ships, and the report of both."""
    report: dict[str, Any] = {"fp32": to_plain(full.check)}
    if lower is None:
        return full, report
    report[lower.precision] = to_plain(lower.check)
    faster = lower.check.milliseconds < full.check.milliseconds
    if lower.precision == "fp16" or want.smallest or faster:
        return lower, report
    return full, report | {"kept": "fp32: int8 is not faster here"}


def assembled(
    draft: Manifest,
    message: bytes,
    chosen: tuple[Form, dict[str, Any]],
    want: Wanted,
    samples: Trial | None = None,
) -> Exported:
    """The files, held to each other, and the manifest: `draft` with what the files decide.

    `samples` are those that unknown things are told by.
    """
    shipped, report = chosen
    files = _files(want, shipped, message, _notes(draft))
    vectors = verify.patterns(draft.input)
    expected, feature = verify.scores(files[MODEL], vectors, shipped.points.inputs)
    # What was verified is what is written: names were shortened since.
    before = verify.scores(shipped.model, vectors, shipped.points.inputs)
    _near(before[1], feature, MODEL)
    _near(before[0], expected, MODEL)
    _same_answers(files, shipped, vectors, expected)
    files[SELFTEST] = npz({"image": vectors, "score": expected, "feature": feature})
    threshold = None
    if want.calibration and samples is not None and len(samples.x):
        by = draft.reading.by
        threshold, seen = _calibrated(files[MODEL], samples, shipped.points, by, want.keep)
        files[CALIBRATION] = npz({"features": seen})
        if "raw" in want.also:
            files[SEEN] = seen.astype("<f4").tobytes()
    report = report | {
        "forms": {n: len(d) for n, d in files.items() if n.endswith(".onnx")},
        "inputs": _inputs(shipped.points),
    }
    files[REPORT] = plain_json(report)
    manifest = replace(
        draft,
        embedding=int(feature.shape[1]),
        precision=shipped.precision,
        tolerance=TOLERANCE[shipped.precision],
        files={name: sha256(data).hexdigest() for name, data in files.items()},
        versions=_versions(),
        unknown=Unknown(want.keep, threshold),
    )
    return Exported(manifest, files, report)


def plain_json(document: Any) -> bytes:
    """As it is written."""
    return json.dumps(document, indent=1, ensure_ascii=False).encode()


def npz(arrays: Mapping[str, Any]) -> bytes:
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


def _files(
    want: Wanted, shipped: Form, message: bytes, notes: Mapping[str, str]
) -> dict[str, bytes]:
    """The graph in every form that is asked for, and the state; the order is the manifest's."""
    files: dict[str, bytes] = {MODEL: shipped.model, PROTOTYPES: message}
    if shipped.drift:
        files[DRIFT] = npz(shipped.drift)
    if "baked" in want.also:
        files["baked.onnx"] = forms.baked(shipped.model, shipped.points.inputs)
    if "fixed" in want.also:
        files["fixed.onnx"] = forms.fixed(shipped.model, len(shipped.points.rows))
    if "raw" in want.also:
        sure = published.read(message).bank.about.calibration
        files |= _raw(shipped.points, sure)
    files |= {
        name: forms.valid(forms.finished(data, notes), name)
        for name, data in files.items()
        if name.endswith(".onnx")
    }
    if want.ort:
        files |= mobile.to_ort(files[MODEL], files.get("fixed.onnx"))
    return files


def _same_answers(files: Mapping[str, bytes], shipped: Form, vectors: Any, expected: Any) -> None:
    """The other forms say what the first one does."""
    inputs = shipped.points.inputs
    # Whoever fuses other steps rounds at other places: in few bits that is more than a float's.
    full = shipped.precision == "fp32"
    most = verify.LARGEST_DIFFERENCE if full else TOLERANCE[shipped.precision]
    if "model.ort" in files:
        live = verify.session(files["model.ort"])
        _near(live.run(["score"], {"image": vectors, **inputs})[0], expected, "model.ort", most)
    if "baked.onnx" in files:
        live = verify.session(files["baked.onnx"])
        _near(live.run(["score"], {"image": vectors})[0], expected, "baked.onnx", most)
    if "fixed.onnx" in files:
        live = verify.session(files["fixed.onnx"])
        score = np.concatenate(
            [live.run(["score"], {"image": one[None], **inputs})[0] for one in vectors]
        )
        _near(score, expected, "fixed.onnx", most)


def _near(computed: Any, expected: Any, what: str, most: float = verify.LARGEST_DIFFERENCE) -> None:
    # No scores where there is no class yet.
    apart = float(np.abs(computed - expected).max(initial=0))
    apart /= float(np.abs(expected).max(initial=1e-30))
    if not apart <= most:
        raise ExportError(
            f"{what} differs from the verified graph by {apart:.1e} of the largest score"
        )


def _raw(own: Ready, sure: Calibration | None) -> dict[str, bytes]:
    """The graph's inputs as plain little-endian float32, for clients without CBOR, and the class of
    each row; of a fleet's own head how sure it is.
    """
    rows = {"classes": own.classes, "rows": own.rows.tolist(), "shapes": _inputs(own)}
    rows |= {} if sure is None else {"calibration": to_plain(sure)}
    return {f"{n}.f32": a.astype("<f4").tobytes() for n, a in own.inputs.items()} | {
        "rows.json": plain_json(rows)
    }


def _calibrated(
    model: bytes, check: Trial, own: Ready, by: str, keep: float
) -> tuple[float, NDArray[np.float16]]:
    """Embeddings of check samples in half precision, and the threshold they give."""
    # So many that the file stays within its bytes: at least 16, at most 256.
    width = max(1, verify.scores(model, check.x[:1], own.inputs)[1].shape[1])
    score, features = verify.scores(
        model, check.x[: max(16, min(256, CALIBRATION_BYTES // (2 * width)))], own.inputs
    )
    threshold = float(np.quantile(oddness(features, own.by_class(score, by), by), keep))
    return threshold, features.astype(np.float16)


def _notes(draft: Manifest) -> dict[str, str]:
    return {
        "protofleet.schema": SCHEMA,
        "protofleet.method": draft.method,
        "protofleet.lineage": draft.lineages[0],
        "protofleet.state": draft.state,
        "protofleet.precision": draft.precision,
        "protofleet.classes": json.dumps(draft.classes, ensure_ascii=False),
    }


def _inputs(points: Ready) -> dict[str, list[int]]:
    return {name: list(array.shape) for name, array in points.inputs.items()}


def _versions() -> dict[str, str]:
    versions = {}
    for name in INVOLVED:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # an extractor from an ONNX file needs no torch
            continue
    return versions
