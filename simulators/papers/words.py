"""What people concluded from the figures, kept beside the records and shown only beside the figures
that it was written for.

`docs/results/words.json` has entries by the name of a section or a cell: the text, and the digest
of the records that its writer saw. When a run is added or made anew the digest is another, and the
text is no longer shown until somebody has looked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from simulators.papers.records import RunRecord

FILE = "words.json"


def digest_of(runs: Sequence[RunRecord]) -> str:
    """Which figures these are, in eight digits: cells, seeds and what came out."""
    facts = sorted(
        (run.cell, run.seed, json.dumps(run.document.get("final")), run.failure) for run in runs
    )
    return sha256(json.dumps(facts).encode()).hexdigest()[:8]


def words_on(name: str, runs: Sequence[RunRecord], folder: Path | None) -> str:
    """The conclusion written for just these runs, or nothing."""
    path = None if folder is None else folder / FILE
    if not runs or path is None or not path.exists():
        return ""
    entries: Mapping[str, Mapping[str, str]] = json.loads(path.read_text())
    entry = entries.get(name, {})
    return entry.get("text", "") if entry.get("of") == digest_of(runs) else ""
