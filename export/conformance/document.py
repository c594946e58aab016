"""What any client of a bundle, in any language, can be held to: inputs, states, and the answers
that are due.

A conformance folder is a bundle, photos (or samples) as plain files, prototypes to swap in,
messages to refuse, and `expected.json`. A client writes its answers in the same form; `comparison`
says in what they are others.
"""

# What is in it, and why
#
#   bundle/          the bundle itself
#   inputs/          photos of several sizes as PPM, which needs no decoder: a client makes them as
#                    small as the network takes them, and grey where that takes grey. Vectors and
#                    series: little-endian float32
#   states/          what a fleet might publish: in half precision, in int8, and with a calibration,
#                    so that probabilities and what is unknown are asked, too
#   refused/         what nobody may take: a message cut short, one with a byte more, one of another
#                    lineage, one that is none
#   expected.json    for each state and each input: label of the likeliest class (also where it is
#                    unknown), scores of all classes, probabilities, unknown; null where there is
#                    nothing to tell it by
#
# Photos are made smaller rows first, each pass rounded, as docs/devices.md has it. Pillow 13 takes
# the columns of tall photos first and is a grey level off here and there. So an input is in the
# folder only if a grey level does not turn its answer, and scores may differ by more than floats
# do. A resize that is not antialiased is beyond that.

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.data import images
from edge_agent.inference.bundle import Bundle, open_bundle
from edge_agent.inference.classifier import Answer, Classifier, Mismatch
from export.verify import patterns
from protofleet.contract import Input, Wire
from protofleet.errors import DataError, UsageError
from protofleet.exchange import published
from protofleet.exchange.archive import MANIFEST, PROTOTYPES
from protofleet.exchange.published import About, Bank
from protofleet.settings.fields import to_plain
from protofleet.statistics.reliability import Calibration
from protofleet.util.seeds import generator
from protofleet.values.prototypes import Floats, Head, Prototypes
from protofleet.wire import Envelope

SCHEMA = "protofleet-conformance/1"
EXPECTED = "expected.json"
# Shares of a state's largest score, and of probability: what a grey level may cost.
SCORE, PROBABILITY = 5e-3, 0.02
SIZES = ((61, 47), (47, 90), (120, 80), (200, 131), (33, 33), (75, 140))
GROUPS = 5  # classes of the states that are made here

Pixels = NDArray[np.uint8]
Sample = NDArray[Any]


@dataclass(frozen=True, eq=False)
class _Case:
    """One input: its file's bytes, and what the network takes of it."""

    data: bytes
    fed: Sample


def folder(bundle: Bundle, photos: Iterable[Pixels] = ()) -> dict[str, bytes]:
    """The files of a conformance folder for this bundle; `photos` are upright RGB, and come beside
    those that are made up.
    """
    kind = bundle.manifest.input
    if kind.kind == "image":
        if kind.shape[2] not in (1, 3):
            raise UsageError(f"this bundle takes {kind.shape[2]} channels", "1 or 3 are due")
        cases = [_photo(pixels, kind) for pixels in (*made_up(), *photos)]
    else:
        cases = [_Case(x.astype("<f4").tobytes(), x) for x in patterns(kind, 24)]
    classifier = Classifier(bundle, unknown=_tells(bundle))
    fed = np.stack([case.fed for case in cases])
    banks = _states(bundle, classifier.embed(fed))
    lineage = bundle.manifest.lineages[0]
    messages = {f"states/{name}.cbor": _message(bank, wire) for name, (bank, wire) in banks.items()}
    states = {f"bundle/{PROTOTYPES}": bundle.files[PROTOTYPES], **messages}
    answers = {name: _looked(classifier, data, fed) for name, data in states.items()}
    sure = np.ones(len(cases), np.bool_)
    if kind.kind == "image":
        for other in (np.maximum(fed, 1) - 1, np.minimum(fed, 254) + 1):
            for name, data in states.items():
                sure &= _same(answers[name], _looked(classifier, data, other))
    clear = np.flatnonzero(sure)
    if not len(clear):
        raise DataError("every answer turns with a grey level", "name other photos")
    suffix, sort = ("ppm", "photo") if kind.kind == "image" else ("f32", "sample")
    inputs = {f"inputs/{i:02}.{suffix}": cases[k].data for i, k in enumerate(clear)}
    last = list(states.values())[-1]
    other = _message(Bank(About(f"{lineage}-other", ("a",)), _points(bundle)), "float32")
    refused = {"cut": last[:-3], "longer": last + b"\0", "lineage": other, "nothing": b"\xa0"}
    refused_files = {f"refused/{name}.cbor": data for name, data in refused.items()}
    document = {
        "schema": SCHEMA,
        "bundle": bundle.digest,
        "tolerance": {
            "score": max(SCORE, bundle.manifest.tolerance),
            "probability": PROBABILITY,
        },
        "inputs": [{"file": name, "kind": sort} for name in inputs],
        "states": [{"file": name, **_plain(a, clear)} for name, a in answers.items()],
        "refused": list(refused_files),
    }
    own = {MANIFEST: _manifest(bundle), **bundle.files}
    files = {f"bundle/{name}": data for name, data in own.items()}
    words = json.dumps(document, ensure_ascii=False, indent=1).encode()
    return {**files, **messages, **inputs, **refused_files, EXPECTED: words}


def made_up() -> list[Pixels]:
    """Waves, edges and noise in colours, of several sizes: much that a bad resize skips."""
    rng, pictures = generator("export", "conformance"), []
    for width, height in SIZES * 2:
        down, across = np.linspace(0, 7, height)[:, None, None], np.linspace(0, 9, width)[:, None]
        waves = 127 + 90 * np.sin((down + across) * rng.uniform(1, 9, 3))
        waves += rng.normal(0, 30, (height, width, 3))
        waves[height // 3 :, width // 2 :] = rng.integers(0, 2, 3) * 255
        waves[::2, : width // 3] = rng.integers(0, 256, 3)
        pictures.append(np.clip(waves, 0, 255).astype(np.uint8))
    return pictures


def answered(where: Path, shown: Callable[[Path, Input], Sample] | None = None) -> dict[str, Any]:
    """This package's own answers to a folder; `shown` reads a photo otherwise."""
    expected = read(where)
    bundle = open_bundle(where / "bundle")
    classifier, kind = Classifier(bundle, unknown=_tells(bundle)), bundle.manifest.input
    reader = shown or (images.read if kind.kind == "image" else _sample)
    fed = np.stack([reader(where / one["file"], kind) for one in expected["inputs"]])
    states, refused = [], []
    for state in expected["states"]:
        answer = _looked(classifier, (where / state["file"]).read_bytes(), fed)
        states.append(_plain(answer, np.arange(len(fed))))
    for name in expected["refused"]:
        try:
            classifier.swap((where / name).read_bytes())
            refused.append("")
        except Mismatch as error:
            refused.append(error.words)
    return {"states": states, "refused": refused}


def read(where: Path) -> dict[str, Any]:
    """What is due in a folder."""
    try:
        document: dict[str, Any] = json.loads((where / EXPECTED).read_text())
    except (OSError, ValueError):
        raise DataError(f"{where} is no conformance folder") from None
    if document.get("schema") != SCHEMA:
        raise DataError(f"{where}: schema {document.get('schema')!r} is not known here")
    return document


def _photo(pixels: Pixels, kind: Input) -> _Case:
    from PIL import Image

    height, width, channels = kind.shape
    image = Image.fromarray(pixels)
    data = b"P6\n%d %d\n255\n" % image.size + pixels.tobytes()
    plain = image.convert("L" if channels == 1 else "RGB")
    # One axis at a time: rows come first, whatever the version.
    rows = plain.resize((width, plain.height), Image.Resampling.BILINEAR)
    fed = np.asarray(rows.resize((width, height), Image.Resampling.BILINEAR))
    return _Case(data, fed.reshape(kind.shape))


def _sample(path: Path, kind: Input) -> Sample:
    return np.frombuffer(path.read_bytes(), "<f4").reshape(kind.shape)


def _tells(bundle: Bundle) -> bool:
    return bundle.manifest.unknown.threshold is not None


def _points(bundle: Bundle) -> Prototypes:
    return Prototypes(np.zeros(1, np.int64), np.ones((1, bundle.manifest.embedding), np.float32))


def _states(bundle: Bundle, features: Floats) -> dict[str, tuple[Bank, Wire]]:
    """What a fleet might publish for this bundle: a bank each, and how it travels."""
    own, reading = bundle.published.bank, bundle.manifest.reading
    names = tuple(f"größe {i}" for i in range(GROUPS))
    states: dict[str, tuple[Bank, Wire]] = {}
    if len(own.points.classes):
        states["half"] = own, "half"
    groups = [features[i :: 2 * GROUPS].mean(0) for i in range(2 * GROUPS)]
    if reading.by == "prototypes":
        classes, vectors = np.repeat(np.arange(GROUPS), 2), np.stack(groups).astype(np.float32)
        points = Prototypes(classes, vectors)
        states["int8"] = Bank(replace(own.about, classes=names, calibration=None), points), "int8"
    if reading.takes("head"):
        head, about = own.points, own.about
        if not isinstance(head, Head):
            means = np.stack(groups[:GROUPS]).astype(np.float32)
            head = Head(np.arange(GROUPS), 2 * means, -(means**2).sum(1))
            about = replace(about, classes=names)
        states["sure"] = (
            Bank(replace(about, calibration=_calibration(head, features)), head),
            ("float32"),
        )
    return states


def _calibration(head: Head, features: Floats) -> Calibration:
    """One by which some inputs are unknown and others are not, and no answer is quite sure."""
    score = features.astype(np.float64) @ head.weight.T.astype(np.float64) + head.bias
    ranked = np.sort(score, axis=1)
    gap = float(np.median(ranked[:, -1] - ranked[:, -2])) if score.shape[1] > 1 else 1.0
    least, most = np.quantile(-ranked[:, -1], (0.15, 0.85))
    return Calibration(
        max(gap, 1e-3), (0.3, 0.6, 0.95), (0.2, 0.5, 0.9), (float(least), float(most))
    )


def _message(bank: Bank, wire: Wire) -> bytes:
    return published.write(bank, Envelope("global", "f", "r", round=9), wire)


def _looked(classifier: Classifier, message: bytes, fed: Sample) -> Answer:
    classifier.swap(message)
    return classifier.look(fed)


def _same(one: Answer, other: Answer) -> NDArray[np.bool_]:
    """Which samples have the same answer in both."""
    if not one.labels:
        return np.ones(len(one.scores), np.bool_)
    same: NDArray[np.bool_] = one.scores.argmax(1) == other.scores.argmax(1)
    return same if one.unknown is None else same & (one.unknown == other.unknown)


def _plain(answer: Answer, of: Sequence[int] | NDArray[np.intp]) -> dict[str, Any]:
    rows = []
    for i in of:
        scores, sure, unknown = answer.scores[i], answer.probabilities, answer.unknown
        rows.append(
            {
                "label": answer.labels[int(scores.argmax())] if answer.labels else None,
                "scores": [float(f"{s:.9g}") for s in scores],
                "probabilities": None if sure is None else [round(float(p), 7) for p in sure[i]],
                "unknown": None if unknown is None else bool(unknown[i]),
            }
        )
    return {"classes": answer.labels, "answers": rows}


def _manifest(bundle: Bundle) -> bytes:
    from export.contents import plain_json

    return plain_json(to_plain(bundle.manifest))
