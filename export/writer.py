"""From a trained device, or an extractor, to a bundle on disk: nothing is written that was not
verified, and it is read back first.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edge_agent.inference.bundle import (
    ANTIALIASED,
    TOLERANCE,
    Bundle,
    Manifest,
    Reading,
    open_bundle,
)
from edge_agent.inference.classifier import Classifier
from edge_agent.inference.inputs import Ready, ready
from export import verify
from export.contents import Exported, Form, Wanted, assembled, chosen_form, plain_json
from export.extractor import Extractor
from export.quantise import lowered
from export.reading import chosen
from export.trial import Trial
from protofleet.contract import Input
from protofleet.errors import UsageError
from protofleet.exchange import archive, published
from protofleet.exchange.archive import HELD_OUT, MANIFEST, MODEL, SCHEMA, SUFFIX
from protofleet.exchange.published import About, Bank
from protofleet.mqtt.topics import check_name
from protofleet.settings.fields import to_plain
from protofleet.toolbox import heads
from protofleet.values.prototypes import Head, Prototypes
from protofleet.wire import Envelope

if TYPE_CHECKING:
    from torch import nn

    from export.source import Source

METHOD = "extractor"  # what a bundle without classes says that it is

__all__ = ["Exported", "Wanted", "contents_of", "export", "export_extractor", "write"]


def export(source: Source, want: Wanted) -> Exported:
    """A trained device, everything in memory and verified."""
    reading, points = chosen(source.scorers, want.by)
    lineages, contract = source.lineages(freeze=want.freeze), source.contract
    sure = source.sure if isinstance(points, Head) else None
    about = About(lineages[0], contract.classes, calibration=sure)
    bank = Bank(about, points or heads.rows(source.weights))
    envelope = Envelope(
        "global", contract.fleet, contract.run, round=source.round, method=source.method
    )
    # Of rows that were made of sums the last digits decide.
    message = published.write(bank, envelope, "float32" if sure else contract.wire)
    # As a device will have it: the wire rounds, and the graph is held to the rounded points.
    state = published.read(message)
    full = _full_graph(source, reading, state.bank, own_head=points is None)
    form = Form(full.model, "fp32", full.points, full.check)
    lower = None if want.precision == "fp32" else _lower(source, want, full)
    shipped, report = chosen_form(form, lower, want)
    assert isinstance(full.check, verify.Check)
    assert isinstance(shipped.check, verify.Check)
    accuracy = {
        "float": full.check.accuracy_before,
        "bundle": shipped.check.accuracy_after,
        "samples": float(len(source.check.x)) if source.measured else None,
    }
    report = report | {"took": source.took, "measured": source.measured}
    report |= {} if source.held_out is None else {HELD_OUT: to_plain(source.held_out)}
    draft = Manifest(
        schema=SCHEMA,
        input=contract.input,
        embedding=contract.embedding,
        classes=contract.classes,
        reading=reading,
        lineages=lineages,
        method=source.method,
        backbone=source.backbone,
        fleet=contract.fleet,
        run=contract.run,
        round=source.round,
        state=state.digest,
        precision=shipped.precision,
        tolerance=TOLERANCE[shipped.precision],
        accuracy={name: share for name, share in accuracy.items() if share is not None},
        resize=ANTIALIASED if contract.input.kind == "image" else "",
    )
    return assembled(draft, message, (shipped, report), want, source.check)


def export_extractor(
    extractor: Extractor, want: Wanted, fleet: str, photos: Trial | None = None
) -> Exported:
    """An extractor that knows no class yet, verified; `photos` are what int8 is calibrated with."""
    lineage = extractor.lineage
    nothing = Prototypes(np.zeros(0, np.int64), np.zeros((0, extractor.embedding), np.float32))
    bank, reading = Bank(About(lineage, ()), nothing), Reading("prototypes")
    envelope = Envelope("global", check_name("fleet", fleet), METHOD, round=0, method=METHOD)
    message = published.write(bank, envelope)
    points = ready(bank, reading)
    trial = photos or _made_up(extractor.input, verify.VECTORS)
    expected = extractor.embed(trial.x)
    check = verify.check_features(extractor.model, expected, trial, points.inputs)
    verify.must_agree(check, MODEL)
    full, lower = Form(extractor.model, "fp32", points, check), None
    if want.precision == "int8" and photos is None:
        raise UsageError("int8 is calibrated with photos", "--data, a folder of some")
    if want.precision != "fp32":
        less = lowered(want.precision, full.model, trial, points, bank, reading)
        after = verify.check_features(less.model, expected, trial, points.inputs)
        lower = Form(less.model, want.precision, less.ready, after, less.drift)
    shipped, report = chosen_form(full, lower, want)
    draft = Manifest(
        schema=SCHEMA,
        input=extractor.input,
        embedding=extractor.embedding,
        classes=(),
        reading=reading,
        lineages=(lineage,),
        method=METHOD,
        backbone=extractor.name,
        fleet=fleet,
        run=METHOD,
        round=0,
        state=published.read(message).digest,
        precision=shipped.precision,
        tolerance=TOLERANCE[shipped.precision],
        resize=ANTIALIASED,
    )
    return assembled(draft, message, (shipped, report), want)


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
    check: verify.Check


def _full_graph(source: Source, reading: Reading, bank: Bank, *, own_head: bool) -> _FullGraph:
    from export import graph

    points = ready(bank, reading)
    module = graph.classifying(source.net, source.contract.input, reading, own_head=own_head)
    trial = source.check if len(source.check.x) else _made_up(source.contract.input, 64)
    model = graph.to_onnx(module, source.contract.input, points.inputs)
    check = verify.check(model, module, trial, points, reading.by)
    verify.must_agree(check, MODEL)
    return _FullGraph(model, module, bank, reading, points, trial, check)


def _lower(source: Source, want: Wanted, full: _FullGraph) -> Form:
    kind = source.contract.input
    calibration = source.calibration if len(source.calibration.x) else _made_up(kind, 64)
    lower = lowered(want.precision, full.model, calibration, full.points, full.bank, full.reading)
    check = verify.check(
        lower.model, full.module, full.trial, full.points, full.reading.by, lower.ready
    )
    return Form(lower.model, want.precision, lower.ready, check, lower.drift)


def _made_up(kind: Input, n: int) -> Trial:
    x = verify.patterns(kind, n)
    return Trial(x, np.full(len(x), -1, np.int64))


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
    contents = contents_of(exported)
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


def contents_of(exported: Exported) -> dict[str, bytes]:
    """Every file; the hash of the manifest is the bundle's name."""
    return {MANIFEST: plain_json(to_plain(exported.manifest)), **exported.files}


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
