"""What is kept of a run when its folder is gone: a small document a seed, under `docs/results/`."""

# Theory of operation
#
# `runs/` holds whole runs, hundreds of megabytes, on the machine that made them. A record holds
# what the page of results needs, in a few kilobytes that go into git: so a run of hours is made
# once, on whichever machine, and a fresh checkout goes on where the last one stopped.
#
# 1. A record says which configuration it is of, as the options were given: run, partition,
#    training, numerics, the method's settings. It counts for a cell whose options are these and for
#    no other; a cell that is changed loses its records by itself.
# 2. An option that came after a record was written is taken to have had its default then; that is
#    what a new option's default has to be.
# 3. Nothing in it names a commit, a machine or a day: the same run gives the same record but for
#    its seconds. The data set is named by a digest of its samples, since two sets may have one name
#    (CIFAR-10 came in a JPEG copy first).
# 4. A run that ended in numbers that are not finite has a record too, with its words. It would end
#    so again, and a page that says so is worth more than a cell that is tried every night.
# 5. A run that was not finished may leave a record of where it stood (`rounds` below the
#    configuration's). It stands on the page as that and never counts as a figure.
#
#     curve           accuracy per round, by the evaluator that the cell is known by, four digits
#     final, best     by evaluator: the mean over devices (`each`, its deviation `std`), and right
#                     answers over samples of all devices together (`pooled`)
#     exchange        the last round of exchange in floats and bytes, and how many rounds had one

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from edge_agent.data.sets import DataSet
from protofleet import registry
from protofleet.contract import Numerics, Training
from protofleet.settings.fields import parse_pairs, to_plain
from protofleet.util.files import write_whole
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.rundir import with_defaults

FORMAT = 1
NAN = float("nan")
Over = Literal["devices", "samples"]
Pick = Literal["last", "best"]
Plain = dict[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """A run of a cell, as it is kept."""

    cell: str
    seed: int
    document: Mapping[str, Any]

    @property
    def rounds(self) -> int:
        """How many rounds were run."""
        return int(self.document["rounds"])

    @property
    def finished(self) -> bool:
        """Whether these are all its rounds."""
        return self.rounds >= int(self.document["config"]["run"]["rounds"])

    @property
    def failure(self) -> str:
        """Why it ended before its last round, where it did."""
        return str(self.document.get("failure", ""))

    @property
    def seconds(self) -> float:
        """The wall time of its rounds."""
        return float(self.document["seconds"])

    def accuracy(self, evaluator: str, over: Over, pick: Pick) -> float:
        """In the last round or in the best one; not a number where it was not measured."""
        kind = "each" if over == "devices" else "pooled"
        figures = self.document[{"last": "final", "best": "best"}[pick]][kind]
        value = figures.get(evaluator)
        if value is None:
            return NAN
        return float(value["accuracy"] if pick == "best" else value)

    def curve(self, over: Over) -> list[tuple[int, float]]:
        """Accuracy per round."""
        curve = self.document["curve"]
        values = curve["each" if over == "devices" else "pooled"]
        return list(zip(curve["rounds"], values, strict=True))


def config_of(config: LabConfig) -> Plain:
    """What a record says of a configuration: its options as they were given."""
    hyper = registry.load(config.run.method).hyper
    sections = {
        "run": to_plain(config.run),
        "partition": to_plain(config.partition),
        "training": to_plain(config.training),
        "numerics": to_plain(config.numerics),
        "settings": to_plain(parse_pairs(hyper, config.settings)),
    }
    plain: Plain = json.loads(json.dumps(sections))
    return plain


def config_in(document: Mapping[str, Any]) -> Plain:
    """The same of a finished run's `result.json`."""
    resolved = document["config"]
    return {
        "run": {name: resolved[name] for name in to_plain(Run()) if name in resolved},
        "partition": resolved["partition_options"],
        "training": resolved["contract"]["training"],
        "numerics": resolved["contract"]["numerics"],
        "settings": resolved["settings"],
    }


def same(recorded: Mapping[str, Any], config: LabConfig) -> bool:
    """Whether this was recorded of that configuration; options that came later had their
    defaults.
    """
    try:
        method = registry.load(str(recorded["run"]["method"]))
    except KeyError:
        return False
    defaults = {
        "run": to_plain(Run()),
        "partition": to_plain(PartitionOptions()),
        "training": to_plain(Training()),
        "numerics": to_plain(Numerics()),
        "settings": to_plain(method.hyper()),
    }
    plain = json.loads(json.dumps(defaults))
    return with_defaults(recorded, plain) == config_of(config)


def record_of(cell: str, evaluator: str, result: Mapping[str, Any], **more: object) -> RunRecord:
    """From a run's `result.json`, or from the rows of one that stopped; `more` is said as it is."""
    rows: Sequence[Mapping[str, Any]] = result["rounds"]
    config = config_in(result)
    shown = [row for row in rows if evaluator in row["accuracy"]]
    document = {
        "format": FORMAT,
        "cell": cell,
        "seed": config["run"]["seed"],
        "rounds": len(rows),
        "config": config,
        "final": _final(rows),
        "best": {"each": _best(rows, "accuracy"), "pooled": _best(rows, "pooled")},
        "exchange": _exchange(rows),
        "bytes": {way: sum(row[f"{way}_bytes"] for row in rows) for way in ("up", "down")},
        "client_classes": sum(
            len(agent["classes"]) for agent in result["partition"]["agents"].values()
        ),
        # Of all rounds: the document's own are those after the last resumption.
        "seconds": round(sum(row["seconds"] for row in rows), 1),
        "curve": {
            "evaluator": evaluator,
            "rounds": [row["round"] for row in shown],
            "each": [round(row["accuracy"][evaluator], 4) for row in shown],
            "pooled": [round(_pooled(row).get(evaluator, NAN), 4) for row in shown],
        },
        **more,
    }
    return RunRecord(cell, int(config["run"]["seed"]), document)


def failed(cell: str, config: LabConfig, words: str, rounds: int) -> RunRecord:
    """Of a run that ended in numbers that are not finite."""
    document = {
        "format": FORMAT,
        "cell": cell,
        "seed": config.run.seed,
        "rounds": rounds,
        "config": config_of(config),
        "failure": words,
        "seconds": 0.0,
    }
    return RunRecord(cell, config.run.seed, document)


def digest(data: DataSet) -> str:
    """Which samples these are, in sixteen digits."""
    hashed = sha256(data.x.tobytes())
    hashed.update(data.y.tobytes())
    return hashed.hexdigest()[:16]


def write(record: RunRecord, folder: Path) -> Path:
    """Keep it; a line for each entry, so that a difference between two is read easily."""
    path = folder / record.cell / f"{record.seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in record.document.items()]
    write_whole(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
    return path


def read(folder: Path, cell: str, seed: int) -> RunRecord | None:
    """What is kept of a cell's seed, whatever it is of; None where nothing readable is."""
    try:
        document = json.loads((folder / cell / f"{seed}.json").read_text())
        record = RunRecord(cell, seed, document)
        # What every record says; one without is of another program.
        whole = document["format"] == FORMAT and record.finished in (True, False)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record if whole else None


def _pooled(row: Mapping[str, Any]) -> Mapping[str, float]:
    pooled: Mapping[str, float] = row.get("pooled", {})  # older rows have none
    return pooled


def _final(rows: Sequence[Mapping[str, Any]]) -> Plain:
    last = next((row for row in reversed(rows) if row["accuracy"]), rows[-1])
    return {
        "each": _rounded(last["accuracy"]),
        "std": _rounded(last["accuracy_std"]),
        "pooled": _rounded(_pooled(last)),
    }


def _best(rows: Sequence[Mapping[str, Any]], kind: str) -> Plain:
    best: Plain = {}
    for row in rows:
        figures = row["accuracy"] if kind == "accuracy" else _pooled(row)
        for name, value in figures.items():
            # The first of equal ones, as `result.json` has it.
            if name not in best or value > best[name]["accuracy"]:
                best[name] = {"round": row["round"], "accuracy": value}
    return {
        name: {"round": b["round"], "accuracy": round(b["accuracy"], 6)} for name, b in best.items()
    }


def _exchange(rows: Sequence[Mapping[str, Any]]) -> Plain:
    # Methods that exchange only now and then are counted by a round in which they do.
    talking = [row for row in rows if row["up_bytes"]] or list(rows)
    counted = ("up_floats", "down_floats", "up_bytes", "down_bytes", "paper_floats")
    return {"rounds": len(talking), **{name: talking[-1][name] for name in counted}}


def _rounded(figures: Mapping[str, float]) -> Plain:
    return {name: round(value, 6) for name, value in figures.items()}
