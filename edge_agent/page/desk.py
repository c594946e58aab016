"""What lies on the owner's desk: documents for the page, each from the files beside the bundle.

`now` what is seen at this moment; `queue` what to ask, in order; `heaps` unknown things that look
alike; `classes` whether enough was done. Plain functions of what is there; the feed calls them
while somebody looks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from edge_agent.config import DataSection
from edge_agent.contributing import statement
from edge_agent.data import watch
from edge_agent.page.eye import Eye, Judgement, Knowing
from edge_agent.recent import asking, glance, grouping
from edge_agent.recent.glance import Glance
from edge_agent.recent.labelling import Labelling, samples_by_class
from edge_agent.recent.queue import AnsweredPicture, RecentBounds, RecentPicture, RecentQueue
from protofleet.errors import DataError
from protofleet.values.prototypes import Floats

SHOWN, BEST = 24, 5  # pictures of the queue, classes of a picture
HEAPS, IN_A_HEAP = 8, 40
DOUBTFUL = 0.5  # from which a picture may be in a heap: what the fleet is sure of is in none
LOOKS = 16  # pictures that another extractor has not seen, looked at in one go
OLD = 60.0  # seconds after which what is seen "now" was a while ago
# Of `protofleet.statistics.forecast`, by `tools/forecast_error.py` on office-caltech.
ERROR = (
    "These are estimates. Where they were tried on photographs, “right so far” was off by 4 to 5"
    " points for a class, and “ten more bring” by 1 to 2; over all classes by half a point."
)
IMBALANCE = 3.0  # times fewer than is usual
ENOUGH, WORTH = 10, 0.005  # photos of a class; and what ten more must bring to be asked for

Stamps = tuple[int | str, ...]
Embed = Callable[[list[Path]], tuple[str, Floats]]


@dataclass(frozen=True, eq=False)
class _Waiting:
    """Pictures that wait, their features a row each, and what is made of them."""

    rows: list[RecentPicture]
    features: Floats
    judgement: Judgement
    doubt: Any


class Desk:
    """Of one device: its bundle, its samples and its bounds."""

    def __init__(
        self,
        bundle: Path,
        source: Path,
        bounds: RecentBounds,
        embed: Embed,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.labelling = Labelling(bundle, source)
        self.queue = RecentQueue(bundle, bounds)
        self._bundle, self._source, self._embed, self._clock = bundle, source, embed, clock
        self._eye = Eye(bundle)
        self._memo: dict[str, tuple[Stamps, dict[str, Any]]] = {}

    @property
    def names(self) -> list[str]:
        """Every class that the fleet knows or that was named here, in an order that stays."""
        knowing = self._eye.knowing()
        return sorted({*(knowing.labels if knowing else ()), *self._own()}, key=str.casefold)

    def now(self) -> dict[str, Any]:
        """What is seen at this moment."""
        knowing, seen = self._eye.knowing(), glance.read(self._bundle)
        if seen is None:
            return {"at": None, "why": "Nobody looks: start `edge-agent watch`."}
        document: dict[str, Any] = {
            "at": seen.at,
            "old": self._clock() - seen.at > OLD,
            "source": seen.source,
            "picture": sha256(seen.picture).hexdigest()[:16] if seen.picture else None,
        }
        if knowing is None or knowing.lineage != seen.lineage or not knowing.labels:
            return document | {"best": [], "unknown": None}
        return document | _answer(knowing.judge(seen.feature[None]), 0)

    def queue_document(self) -> dict[str, Any]:
        """What to ask, the most useful first."""
        return self._unless_same("queue", self._queue)

    def heaps(self) -> dict[str, Any]:
        """Unknown things that look alike, the largest heap first."""
        return self._unless_same("heaps", self._heaps)

    def classes(self) -> dict[str, Any]:
        """Whether enough was done, class by class."""
        return self._unless_same("classes", self._classes)

    def _unless_same(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was made before, where nothing changed that it is made of."""
        stamps: Stamps = (
            *self._eye.stamps,
            self.queue.stamp,
            watch.stamp(DataSection(source=str(self._source))),
            _stamp_of_forecasts(self._bundle),
        )
        before = self._memo.get(name)
        if before is not None and before[0] == stamps:
            return before[1]
        document = make()
        self._memo[name] = stamps, document
        return document

    def _queue(self) -> dict[str, Any]:
        knowing = self._eye.knowing()
        document: dict[str, Any] = {
            "classes": self.names,
            "waiting": 0,
            "pictures": [],
            "last": _last(self.queue),
            "why": "" if knowing else "The fleet's extractor is on its way to this device.",
        }
        if knowing is None:
            return document
        waiting = self._waiting(knowing)
        if not waiting.rows:
            return document | {"waiting": 0}
        order = self._order(knowing, waiting)[:SHOWN]
        return document | {
            "waiting": len(waiting.rows),
            "pictures": [_shown(waiting.rows[i], waiting.judgement, i) for i in order],
        }

    def _heaps(self) -> dict[str, Any]:
        knowing = self._eye.knowing()
        if knowing is None:
            return {"heaps": []}
        waiting = self._waiting(knowing)
        odd = np.flatnonzero(waiting.doubt > DOUBTFUL)
        if len(odd) < grouping.LEAST:
            return {"heaps": []}
        unit = asking.directions(waiting.features[odd])
        labels = grouping.heaps(unit @ unit.T)
        keys = grouping.clusters([waiting.rows[i].key for i in odd], labels)
        return {"heaps": [{"keys": heap[:IN_A_HEAP], "things": len(heap)} for heap in keys[:HEAPS]]}

    def _classes(self) -> dict[str, Any]:
        knowing = self._eye.knowing()
        own = self._own()
        fleet = {} if knowing is None else knowing.samples
        counted: dict[str, Any] = {}
        if knowing is not None:
            folder = statement.folder_of(self._bundle, knowing.lineage)
            counted = statement.forecasts(folder)
        by_class: Mapping[str, Any] = counted.get("classes", {})
        usual = float(np.median([own.get(name, 0) for name in own] or [0]))
        rows = []
        for name in self.names:
            forecast = by_class.get(name)
            rows.append(
                {
                    "name": name,
                    "own": own.get(name, 0),
                    "fleet": fleet.get(name),
                    "few": own.get(name, 0) * IMBALANCE < usual,
                    "forecast": forecast,
                    "verdict": _verdict(own.get(name, 0), forecast),
                }
            )
        return {"classes": rows, "at": counted.get("at"), "words": ERROR}

    def picture(self, key: str) -> Path | None:
        """The file of one that is in the queue."""
        path = self.queue.picture(key)
        return path if self.queue.one(key) is not None and path.exists() else None

    def now_picture(self) -> bytes:
        """What is seen now, or nothing."""
        seen: Glance | None = glance.read(self._bundle)
        return b"" if seen is None else seen.picture

    def known_as(self, name: str) -> str:
        """A name as the fleet writes it: Mug is no class beside mug."""
        return next((n for n in self.names if n.casefold() == name.casefold()), name)

    def _own(self) -> dict[str, int]:
        try:
            return samples_by_class(self._source)
        except (DataError, OSError):
            return {}

    def _waiting(self, knowing: Knowing) -> _Waiting:
        rows = [row for row in self.queue.pictures("waiting") if self._has_picture(row)]
        features = self._features(knowing, [row.key for row in rows])
        rows = [row for row in rows if row.key in features]
        width = knowing.width
        stacked = np.stack([features[r.key] for r in rows]) if rows else np.zeros((0, width))
        judgement = knowing.judge(stacked.astype(np.float32))
        doubt = asking.doubts(judgement.scores, judgement.unknown)
        return _Waiting(rows, stacked.astype(np.float32), judgement, doubt)

    def _order(self, knowing: Knowing, waiting: _Waiting) -> list[int]:
        named = [row.key for row in self.queue.pictures("naming", "labelled")]
        already = self.queue.features(knowing.lineage, knowing.width, named)
        both = [waiting.features, *(feature[None] for feature in already.values())]
        unit = asking.directions(np.concatenate(both))
        count = len(waiting.rows)
        order: list[int] = asking.order(unit[:count], unit[count:], waiting.doubt).tolist()
        return order

    def _features(self, knowing: Knowing, keys: list[str]) -> dict[str, Floats]:
        """Of all that wait; what only an older extractor saw is looked at anew, some at a time."""
        features = self.queue.features(knowing.lineage, knowing.width, keys)
        lacking = [key for key in keys if key not in features][:LOOKS]
        if lacking:
            lineage, rows = self._embed([self.queue.picture(key) for key in lacking])
            for key, row in zip(lacking, rows, strict=True):
                before = self.queue.one(key)
                if before is not None and lineage == knowing.lineage:
                    self.queue.answered(key, _again(before, lineage, row))
            fresh = self.queue.features(knowing.lineage, knowing.width, lacking)
            features = {**features, **fresh}
        return features

    def _has_picture(self, row: RecentPicture) -> bool:
        return self.queue.picture(row.key).exists()


def _stamp_of_forecasts(bundle: Path) -> int:
    files = bundle.with_name(bundle.name + ".contributed").glob(f"*/{statement.FORECAST}")
    return max((file.stat().st_mtime_ns for file in files), default=0)


def _again(before: RecentPicture, lineage: str, feature: Floats) -> AnsweredPicture:
    return AnsweredPicture(
        b"",
        before.answer,
        before.probability,
        before.unknown,
        before.at,
        before.source,
        lineage,
        feature,
    )


def _answer(judgement: Judgement, row: int) -> dict[str, Any]:
    best = [{"name": name, "share": share} for name, share in judgement.best(row, BEST)]
    unknown = None if judgement.unknown is None else bool(judgement.unknown[row])
    return {"best": best, "unknown": unknown}


def _shown(row: RecentPicture, judgement: Judgement, at: int) -> dict[str, Any]:
    return {"key": row.key, "at": row.at, "source": row.source} | _answer(judgement, at)


def _last(queue: RecentQueue) -> dict[str, Any] | None:
    action = queue.last_action()
    if action is None:
        return None
    return {"number": action.number, "label": action.label, "pictures": action.pictures}


def _verdict(own: int, forecast: Mapping[str, Any] | None) -> str:
    """One word on whether to go on."""
    if forecast is None:
        return "uncounted"
    if own >= ENOUGH and forecast["gain"] < WORTH:
        return "enough"
    return "more"
