"""ProtoNorm's formula (6) beside its code: how the networks that a run left classify by the nearest
of their device's own class means.

The paper prints that methods of prototypes are judged so ("local prototypes"); its code, and so our
cells, take the fleet's. Both are asked of the same weights: judging changes nothing, so no run is
made again for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from protofleet.errors import FleetError
from protofleet.methods import local
from protofleet.util.files import write_whole
from simulators.papers.cell import Cell, Places, at_seed, left_by, newest_round
from simulators.papers.records import Over, RunRecord
from simulators.papers.words import digest_of
from simulators.run.rounds import asked_again
from simulators.run.rundir import RunDir
from simulators.run.setup import prepare

FILE = "own_means.json"
TABLE = """| networks of | in round | nearest of the fleet's | of their own, (6) | classifier |
|---|---|---|---|---|"""


@dataclass(frozen=True)
class OwnMeans:
    """What a run's networks have by own class means after so many rounds."""

    of: str  # the digest of the record beside which it counts, and beside no other
    round: int
    each: float  # the mean over devices
    pooled: float  # right answers over samples of all devices

    def over(self, over: Over) -> float:
        """In the way that a cell is counted."""
        return self.each if over == "devices" else self.pooled


def keep(cell: Cell, record: RunRecord, places: Places) -> None:
    """Ask the weights that this run left, if they are here and were not asked yet."""
    path, config = places.run(cell, record.seed), at_seed(cell.config, record.seed)
    if places.records is None or read(cell, record, places) is not None:
        return
    if newest_round(path) != record.rounds or not left_by(path, config):
        return
    # Without its data, or the versions that made it, there is no answer, and no harm.
    with suppress(FleetError, OSError):
        setup = prepare(config)
        saved = RunDir(path).latest(setup)
        assert saved is not None, "its round is there"
        judged = replace(setup, recipe=replace(setup.recipe, scorers=local.scorers))
        row = asked_again(judged, saved)
        document = _document(places.records)
        document.setdefault(cell.home, {})[str(record.seed)] = {
            "of": digest_of([record]),
            "round": record.rounds,
            "each": round(row.accuracy["prototype"], 6),
            "pooled": round(row.pooled["prototype"], 6),
        }
        ordered = dict(sorted(document.items()))
        write_whole(places.records / FILE, (json.dumps(ordered, indent=1) + "\n").encode())


def read(cell: Cell, record: RunRecord, places: Places) -> OwnMeans | None:
    """What is there of this run as it stands now."""
    if places.records is None:
        return None
    kept = _document(places.records).get(cell.home, {}).get(str(record.seed))
    return OwnMeans(**kept) if kept is not None and kept["of"] == digest_of([record]) else None


def table(runs: Sequence[tuple[Cell, RunRecord]], places: Places) -> list[str]:
    """The runs that were asked, as they stand now."""
    rows = []
    for cell, record in runs:
        own = read(cell, record, places)
        if own is None:
            continue
        figures = (
            record.accuracy(cell.evaluator, cell.over, "last"),
            own.over(cell.over),
            record.accuracy("head", cell.over, "last"),
        )
        seed = f", seed {record.seed}" if record.seed else ""
        shown = " | ".join(f"{100 * figure:.2f}" for figure in figures)
        of = cell.config.run.rounds
        rows.append(f"| {cell.title}{seed} | {own.round} of {of} | {shown} |")
    return [TABLE, *rows, ""] if rows else []


def _document(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / FILE
    document: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    return document
