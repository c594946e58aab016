"""What the fleet knows now, as files beside the bundle have it, for features that were made
elsewhere: no graph is run and no session is built to say what a picture shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_agent.inference.bundle import DRIFT, Bundle, open_bundle
from edge_agent.inference.inputs import precisely, ready
from edge_agent.inference.session import Loaded
from edge_agent.updates import cache
from protofleet.errors import WireError
from protofleet.exchange import contributed
from protofleet.exchange.archive import BundleError
from protofleet.exchange.published import Bank, Published
from protofleet.util.allocator import give_freed_memory_back
from protofleet.values.prototypes import Floats

Stamps = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Judgement:
    """Of some features, a row each."""

    labels: list[str]
    shares: NDArray[np.float64] | None  # None: nobody said how sure the classes are
    scores: NDArray[np.floating]
    unknown: NDArray[np.bool_] | None

    def best(self, row: int, most: int) -> list[tuple[str, float | None]]:
        """The likeliest classes and their probabilities."""
        order = np.argsort(-self.scores[row], kind="stable")[:most]
        shares = self.shares
        return [(self.labels[i], None if shares is None else float(shares[row, i])) for i in order]


@dataclass(frozen=True, eq=False)
class Knowing:
    """Classes and sums as they stand."""

    lineage: str
    width: int
    loaded: Loaded
    samples: Mapping[str, int]  # of each class in the fleet, as of these sums

    @property
    def labels(self) -> list[str]:
        """The classes that it answers with."""
        return self.loaded.labels

    def judge(self, features: Floats) -> Judgement:
        """What these are."""
        loaded = self.loaded
        scores = loaded.ready.by_class(precisely(features, loaded.ready), loaded.bank.kind)
        unknown = loaded.unknown(features, scores) if self.labels else None
        return Judgement(self.labels, loaded.probabilities(scores), scores, unknown)


class Eye:
    """Reads again what changed, and only that: a state comes every second while a fleet learns."""

    def __init__(self, bundle: Path) -> None:
        self._path = bundle
        self._stamps: Stamps = ()
        self._now: Knowing | None = None
        self._opened: tuple[int, Bundle | None] = (0, None)  # without the graph's bytes

    @property
    def stamps(self) -> Stamps:
        """They differ when what the fleet knows does."""
        paths = (
            self._path,
            cache.state_file(self._path),
            cache.enrolled_folder(self._path),
            cache.total_file(self._path),
        )
        return tuple(map(_stamp, paths))

    def knowing(self) -> Knowing | None:
        """As it stands; None before there is a bundle."""
        stamps = self.stamps
        if stamps != self._stamps:
            try:
                self._now, self._stamps = self._read(), stamps
            except BundleError:
                self._now = None  # it is being replaced: the next look finds it
            give_freed_memory_back()
        return self._now

    def _read(self) -> Knowing | None:
        bundle = self._bundle()
        if bundle is None:
            return None
        manifest = bundle.manifest
        state: Published | None = cache.read(cache.state_file(self._path))
        if state is None or state.bank.about.lineage not in manifest.lineages:
            state = bundle.published
        bank = cache.with_enrolled(self._path, state.bank)
        points = ready(bank, manifest.reading, bundle.arrays(DRIFT))
        loaded = Loaded(bank, points, {}, state.digest, None)
        return Knowing(bank.about.lineage, manifest.embedding, loaded, self._samples(bank))

    def _bundle(self) -> Bundle | None:
        stamp = _stamp(self._path)
        if stamp != self._opened[0]:
            bundle = open_bundle(self._path) if stamp else None
            if bundle is not None:
                files = {n: d for n, d in bundle.files.items() if not n.endswith(".onnx")}
                bundle = replace(bundle, files=files)
            self._opened = stamp, bundle
        return self._opened[1]

    def _samples(self, bank: Bank) -> dict[str, int]:
        try:
            claim, means, _ = contributed.read_spread(cache.total_file(self._path).read_bytes())
        except (OSError, WireError):
            return {}
        if claim.lineage != bank.about.lineage or means.counts is None:
            return {}
        ids = means.classes.tolist()
        counts = zip(ids, np.asarray(means.counts).tolist(), strict=True)
        return {claim.classes[i]: int(count) for i, count in counts if i < len(claim.classes)}


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
