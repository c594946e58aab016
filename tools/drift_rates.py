"""How often drift is named where there is none, and where there is: `python tools/drift_rates.py
--data office-caltech --extractor lite0.pfb --keep /tmp/features` on a folder <domain>/<class>/*.

A domain is a device; a third of its photos is held back, and one class is labelled by nobody. A
window is of photos that the device never contributed: its own, its own through a dirty lens
(blurred), every other device's, or its own with three in ten of the class without labels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from coordinator.ledger.drift import DeviceDrift, judged
from edge_agent.data import images
from edge_agent.inference.classifier import Classifier
from protofleet.exchange import learned
from protofleet.statistics import counts
from protofleet.statistics.closed_form import Moments, moments
from protofleet.statistics.contribution import Contribution, Grid, contribution, fold
from protofleet.statistics.counts import Counts
from protofleet.statistics.drift import (
    BLOCK,
    KEPT,
    LEAST,
    DriftReference,
    DriftWindow,
    report,
    share_outside,
)
from protofleet.statistics.held_out import Samples
from protofleet.statistics.knowledge import Knowledge, knowledge
from protofleet.statistics.reliability import FALSE_ALARMS
from protofleet.values import sums
from protofleet.values.prototypes import Floats, Ints

SHUFFLES, STRANGE = 8, 0.3


@dataclass(frozen=True, eq=False)
class Photographs:
    """Features of all, as they are and blurred; whose and what they are."""

    plain: Floats
    blurred: Floats
    domains: Ints
    classes: Ints
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class CountedFleet:
    """What devices classify with, and what the coordinator judges by."""

    own: dict[int, Contribution]
    of: Moments
    whole: Knowledge
    shares: dict[str, tuple[float, int]]


def photographs(data: Path, bundle: Path, blur: float, keep: Path) -> Photographs:
    """Looked at once, and kept."""
    from PIL import Image, ImageFilter

    file = keep / f"{data.name}-{blur:g}.npz"
    files = [path for path in sorted(data.glob("*/*/*")) if path.is_file()]
    names = tuple(sorted({path.parent.name for path in files}))
    domains = sorted({path.parent.parent.name for path in files})
    if not file.exists():
        classifier = Classifier(bundle)
        kind, plain, blurred = classifier.bundle.manifest.input, [], []
        for path in files:
            photo = images.read(path, kind)
            dirty = Image.fromarray(photo).filter(ImageFilter.GaussianBlur(blur))
            plain.append(classifier.embed(photo[None])[0])
            blurred.append(classifier.embed(np.asarray(dirty)[None])[0])
        keep.mkdir(parents=True, exist_ok=True)
        np.savez(file, plain=np.stack(plain), blurred=np.stack(blurred))
    stored = np.load(file)
    whose = np.array([domains.index(path.parent.parent.name) for path in files])
    classes = np.array([names.index(path.parent.name) for path in files])
    return Photographs(stored["plain"], stored["blurred"], whose, classes, names)


def fleet(of: Photographs, train: dict[int, Ints]) -> CountedFleet:
    """As a ledger makes it of these rows, once all counted."""
    grid = Grid()
    own = {n: contribution(of.plain[rows], of.classes[rows], grid) for n, rows in train.items()}
    total = moments(reduce(sums.merge, (fold(one, grid) for one in own.values())))
    assert total is not None
    total = learned.moments(learned.parts(total))
    counted = {
        n: counts.count(total, Samples.of(of.plain[rows], of.classes[rows], own[n]))
        for n, rows in train.items()
    }
    whole = knowledge(total, reduce(Counts.plus, counted.values()))
    assert whole.calibration.usual is not None
    usual = whole.calibration.usual
    shares = {
        str(n): (share_outside(one.at(whole.choice).odd, usual), one.samples)
        for n, one in counted.items()
    }
    return CountedFleet(own, total, whole, shares)


def window(features: Floats, of: CountedFleet) -> DriftWindow:
    """The newest blocks of these, in their order."""
    blocks = len(features) // BLOCK
    rows = features[: blocks * BLOCK][-KEPT * BLOCK :]
    shape = (len(rows) // BLOCK, BLOCK, -1)
    unknown = of.whole.unknown(rows).reshape(shape[:2]).mean(1)
    answered = tuple(str(n) for n in np.unique(of.whole.labels(rows)))
    return DriftWindow(rows.astype(np.float64).reshape(shape).mean(1), unknown, answered)


def judge(device: int, features: Floats, of: CountedFleet) -> DeviceDrift | None:
    """As a coordinator judges what this device reports of such photos."""
    if len(features) < LEAST * BLOCK:
        return None
    names = [str(n) for n in of.of.classes]
    own, means = of.own[device], dict(zip(names, of.of.means, strict=True))
    told = zip(own.means.classes, own.means.vectors, np.asarray(own.means.counts), strict=True)
    labelled = {str(n): (row.astype(np.float64), int(count)) for n, row, count in told}
    reference = DriftReference.of(means, np.diag(of.of.within), labelled)
    fresh = report(window(features, of), reference, True)
    return None if fresh is None else judged(str(device), fresh, FALSE_ALARMS, of.shares)


def streams(
    of: Photographs, device: int, held: dict[int, Ints], rng: np.random.Generator
) -> Iterator[tuple[str, Floats]]:
    """What the device may be shown, and what that is."""
    strange, rows = len(of.names) - 1, rng.permutation(held[device])
    yield "its own", of.plain[rows]
    yield "its own, class by class", of.plain[np.sort(rows)]
    yield "its own, blurred", of.blurred[rows]
    for other in held.keys() - {device}:
        yield "another device's", of.plain[rng.permutation(held[other])]
    new = rng.permutation(np.flatnonzero((of.classes == strange) & (of.domains == device)))
    share = min(len(new), int(len(rows) * STRANGE / (1 - STRANGE)))
    mixed = rng.permutation(np.concatenate([rows, new[:share]]))
    yield "its own and a class without labels", of.plain[mixed]


def split(of: Photographs, rng: np.random.Generator) -> tuple[dict[int, Ints], dict[int, Ints]]:
    """Rows that are contributed and rows that are held back, by device; none of the last class."""
    train: dict[int, list[NDArray[np.int64]]] = {}
    held: dict[int, list[NDArray[np.int64]]] = {}
    for device in np.unique(of.domains).tolist():
        for name in range(len(of.names) - 1):
            rows = np.flatnonzero((of.domains == device) & (of.classes == name))
            rows = rng.permutation(rows)
            train.setdefault(device, []).append(np.sort(rows[len(rows) // 3 :]))
            held.setdefault(device, []).append(rows[: len(rows) // 3])
    whole: Callable[[list[NDArray[np.int64]]], Ints] = np.concatenate
    return {n: whole(r) for n, r in train.items()}, {n: whole(r) for n, r in held.items()}


@click.command()
@click.option("--data", required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--extractor", required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--keep", required=True, type=click.Path(path_type=Path))
@click.option("--blur", default=2.0, show_default=True, help="Radius, in pixels of the network's.")
@click.option("--splits", default=3, show_default=True)
def main(data: Path, extractor: Path, keep: Path, blur: float, splits: int) -> None:
    """Windows by what they hold, and in how many hundredths of them drift is named."""
    of = photographs(data, extractor, blur, keep)
    found: dict[str, list[DeviceDrift]] = {}
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        train, held = split(of, rng)
        made = fleet(of, train)
        for device in train:
            for _ in range(SHUFFLES):
                for kind, features in streams(of, device, held, rng):
                    outcome = judge(device, features, made)
                    if outcome is not None:
                        found.setdefault(kind, []).append(outcome)
    for kind, outcomes in found.items():
        shares = [np.mean([test(one) for one in outcomes]) for test in TESTS]
        words = ", ".join(f"{100 * share:.1f}" for share in shares)
        unknown = 100 * np.mean([one.report.unknown for one in outcomes])
        far = np.median([one.report.distance or 0.0 for one in outcomes])
        print(
            f"{kind:<36} {len(outcomes):>4} windows; % named, by unknown, by mean: {words}; "
            f"{unknown:.1f} % unknown, distance {far:.2f}"
        )


TESTS: tuple[Callable[[DeviceDrift], bool], ...] = (
    lambda one: one.changed,
    lambda one: one.unknown,
    lambda one: one.moved,
)

if __name__ == "__main__":
    main()
