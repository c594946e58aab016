"""What a device saw last, as means of a few blocks, and what that says of its pictures: whether
they are still what they were (`protofleet.statistics.drift`).

Beside a bundle `B` lies the folder `B.recent`: a file for each extractor with the newest blocks,
and `report.json`, what the daemon tells the fleet. A few numbers a feature, and not one sample.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from edge_agent.contributing import statement
from edge_agent.updates import cache
from protofleet.errors import SettingError, WireError
from protofleet.exchange import contributed
from protofleet.exchange.contributed import Contributed
from protofleet.settings.fields import from_plain
from protofleet.statistics import drift
from protofleet.statistics.drift import BLOCK, KEPT, DriftReference, DriftReport, DriftWindow
from protofleet.util.allocator import give_freed_memory_back
from protofleet.util.files import OWN_FILE, own_folder, write_whole
from protofleet.values.prototypes import Floats

LARGEST_REPORT = 4096  # bytes
Stamps = tuple[int, ...]


class RecentWindow:
    """The newest blocks of one extractor's features, and the block that is not full yet."""

    def __init__(self, bundle: Path, lineage: str, width: int) -> None:
        self._bundle, self._lineage, self._width = bundle, lineage, width
        name = sha256(lineage.encode()).hexdigest()[:16]
        self._file = cache.recent_folder(bundle) / f"{name}.npz"
        self._means, self._unknown = np.zeros((0, width)), np.zeros(0)
        self._answered: list[list[str]] = []
        self._open: list[tuple[Floats, str, bool]] = []
        self._last: Floats | None = None
        self._stamps: Stamps = ()
        self._reference: tuple[DriftReference, bool] | None = None
        with suppress(OSError, ValueError, KeyError, zipfile.BadZipFile):
            self._read()

    def add(self, feature: Floats, label: str, unknown: bool) -> DriftReport | None:
        """One more; what there is to report, if that filled a block."""
        if self._is_still(feature):
            return None
        self._last = feature
        self._open.append((feature, label, unknown))
        if len(self._open) < BLOCK:
            return None
        rows, labels, odd = zip(*self._open, strict=True)
        self._open = []
        mean = np.stack(rows).mean(0, dtype=np.float64)
        self._means = np.vstack([self._means, mean])[-KEPT:]
        self._unknown = np.append(self._unknown, np.mean(odd))[-KEPT:]
        self._answered = [*self._answered, sorted(set(labels))][-KEPT:]
        self.save()
        return self._report()

    def save(self) -> None:
        """Remember all of it, the open block too."""
        file, answered = io.BytesIO(), json.dumps(self._answered).encode()
        arrays: dict[str, Any] = {
            "means": self._means.astype(np.float32),
            "unknown": self._unknown,
            "answered": np.frombuffer(answered, np.uint8),
            "open": np.array([row for row, _, _ in self._open], np.float32),
            "labels": np.frombuffer(
                json.dumps([(label, bool(odd)) for _, label, odd in self._open]).encode(), np.uint8
            ),
        }
        np.savez(file, **arrays)
        own_folder(self._file.parent)
        write_whole(self._file, file.getvalue(), lasting=False, mode=OWN_FILE)

    def _report(self) -> DriftReport | None:
        compared = self._compared_with()
        names = tuple(sorted({name for block in self._answered for name in block}))
        window = DriftWindow(self._means, self._unknown, names)
        reference, labelled = compared or (None, False)
        fresh = drift.report(window, reference, labelled)
        if fresh is not None:
            document = {"lineage": self._lineage, **asdict(fresh)}
            path = report_file(self._bundle)
            write_whole(path, json.dumps(document).encode(), lasting=False, mode=OWN_FILE)
        return fresh

    def _is_still(self, feature: Floats) -> bool:
        """Whether a camera looks at one thing that does not change."""
        if self._last is None:
            return False
        compared = self._compared_with()
        if compared is None:
            return bool(np.array_equal(feature, self._last))
        return compared[0].is_still(feature.astype(np.float64), self._last.astype(np.float64))

    def _compared_with(self) -> tuple[DriftReference, bool] | None:
        """What the sums and the device's own contribution say, read again where they changed."""
        paths = (
            cache.total_file(self._bundle),
            statement.folder_of(self._bundle, self._lineage) / statement.CONTRIBUTION,
        )
        stamps = tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)
        if stamps != self._stamps:
            self._stamps, self._reference = stamps, None
            with suppress(OSError, WireError):
                self._reference = _reference(*paths, self._lineage, self._width)
            give_freed_memory_back()
        return self._reference

    def _read(self) -> None:
        with np.load(self._file, allow_pickle=False) as file:
            means, unknown = file["means"].astype(np.float64), file["unknown"].astype(np.float64)
            answered = json.loads(file["answered"].tobytes())
            rows, labels = file["open"], json.loads(file["labels"].tobytes())
        if means.shape != (len(answered), self._width) or unknown.shape != (len(answered),):
            return
        self._means, self._unknown, self._answered = means, unknown, answered
        if rows.shape == (len(labels), self._width):
            self._open = [(row, *pair) for row, pair in zip(rows, labels, strict=True)]


def report_file(bundle: Path) -> Path:
    """What the daemon tells the fleet."""
    return cache.recent_folder(bundle) / "report.json"


def read_report(bundle: Path) -> tuple[str, DriftReport] | None:
    """The newest report and its lineage; nothing where there is none."""
    try:
        with report_file(bundle).open("rb") as file:
            document = json.loads(file.read(LARGEST_REPORT))
        lineage = str(document.pop("lineage"))
        return lineage, from_plain(DriftReport, document, "drift")
    except (OSError, ValueError, KeyError, AttributeError, TypeError, SettingError):
        return None


def _reference(
    total: Path, contribution: Path, lineage: str, width: int
) -> tuple[DriftReference, bool] | None:
    """Where samples are expected, and whether that is by the device's own labels."""
    claim, means, variances = contributed.read_spread(total.read_bytes())
    if claim.lineage != lineage or means.dim != width or means.classes[-1] >= len(claim.classes):
        return None
    rows = means.vectors.astype(np.float64)
    fleet = {claim.classes[place]: row for place, row in zip(means.classes, rows, strict=True)}
    own = _own(contribution)
    return DriftReference.of(fleet, variances, own), bool(own)


def _own(path: Path) -> dict[str, tuple[Any, int]]:
    """Each class's mean and samples, as this device contributed them."""
    with suppress(OSError, WireError):
        message = contributed.read(path.read_bytes())
        if isinstance(message, Contributed):
            means, names = message.contribution.means, message.claim.classes
            counts: Sequence[int] = np.asarray(means.counts).tolist()
            rows = means.vectors.astype(np.float64)
            return {n: (row, c) for n, row, c in zip(names, rows, counts, strict=True)}
    return {}
