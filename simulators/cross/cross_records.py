"""What is kept of a run of the cross when its folder is gone: a few kilobytes a seed, under
`docs/results/cross/`; read back, it is the part of `result.json` that the tables look at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from protofleet.util.files import write_whole
from simulators.papers.records import config_of, same
from simulators.run.config import LabConfig

FORMAT = 1
POINTS = 100  # of a curve: more than anybody sees, and few enough to be in git
Plain = dict[str, Any]


def write(
    path: Path, config: LabConfig, document: Mapping[str, Any], evaluators: Sequence[str]
) -> None:
    """Keep accuracies by these evaluators, and bytes; of a long run not every round."""
    rows = document["rounds"]
    crossed = list(accumulate(row["up_bytes"] + row["down_bytes"] for row in rows))
    step = max(1, -(-len(rows) // POINTS))
    # The first and the last are always among them: what is over in a round is told by the first.
    chosen = sorted({0, len(rows) - 1, *range(step - 1, len(rows), step)})
    record = {
        "format": FORMAT,
        "config": config_of(config),
        "devices": len(document["partition"]["agents"]),
        "final": _of(document["final"]["each"], evaluators),
        "best": _of(document["best"]["each"], evaluators),
        "rounds": [rows[i]["round"] for i in chosen],
        "crossed": [crossed[i] for i in chosen],
        "accuracy": {
            name: [_rounded(rows[i]["accuracy"].get(name)) for i in chosen] for name in evaluators
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in record.items()]
    write_whole(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def read(path: Path, config: LabConfig) -> Plain | None:
    """A run's document, as far as it was kept; None where nothing is, or of other settings."""
    try:
        record = json.loads(path.read_text())
        if record["format"] != FORMAT or not same(record["config"], config):
            return None
        between = [after - before for before, after in pairwise([0, *record["crossed"]])]
        rows = [
            {
                "round": number,
                "accuracy": _of(
                    {name: values[i] for name, values in record["accuracy"].items()},
                    record["accuracy"],
                ),
                "up_bytes": between[i],
                "down_bytes": 0,
            }
            for i, number in enumerate(record["rounds"])
        ]
        devices: Plain = {str(i): {} for i in range(record["devices"])}
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    ends = {name: {"each": record[name]} for name in ("final", "best")}
    return {"rounds": rows, "partition": {"agents": devices}, **ends}


def _of(figures: Mapping[str, Any], names: Sequence[str] | Mapping[str, Any]) -> Plain:
    return {name: figures[name] for name in names if figures.get(name) is not None}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
