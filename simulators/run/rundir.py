"""A run's directory: checkpoints to continue from, and what is left for people and programs at the
end.
"""

# Theory of operation
#
# A run may be killed at any moment and must go on to the state it would have ended in. The
# directory holds
#
#     config.json                everything that decides the outcome; whose run this is
#     samples.npz                which rows of the set are trained on, tested on, or nobody's
#     checkpoint-000015/         the newest checkpoint
#         state.cbor             the global state after round 15
#         rows.json              the rows of rounds 1 to 15
#         agents/NAME.cbor       what each device must remember
#     result.json, rounds.csv, state.cbor, *.png     once the run has ended
#
# A checkpoint is many files, and a rename makes only one thing whole. So they are written into a
# directory whose name no reader looks for (`.checkpoint-PID`), each of them on disk before the
# next, and the directory gets its name last. Only then are older checkpoints removed:
#
#     killed while writing       the new directory has no name yet; the old checkpoint is there
#     killed after the rename    both are there, and the newest counts
#     killed while removing      an old one is in pieces, and the newest counts
#
# `result.json` says that a run is finished, so it comes after all that other programs read. The
# pictures are for people and come last: one that cannot be drawn takes no result with it.
#
# A directory belongs to one configuration. It is compared as JSON, resolved: with every default
# spelled out, the network that was chosen, and the versions of what computes. The number of rounds
# alone may differ, since nothing in a round depends on how many will follow. An option that came
# after the directory was made is taken to have had its default then: that is what a new option's
# default has to be, and a long run is not lost by an update.

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from coordinator.config import UploadLimits
from protofleet.contract import Contract, Numerics, Training
from protofleet.errors import CheckpointError, FleetError
from protofleet.exchange.snapshot import pack, pack_state, unpack, unpack_state
from protofleet.exchange.state import GlobalState
from protofleet.settings.fields import from_plain, to_plain
from protofleet.util.files import write_whole
from protofleet.values.prototypes import Parts
from simulators.run.config import BudgetOptions, MaskOptions, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.result import Outcome, Row, document, resolved, table
from simulators.run.setup import Setup


@dataclass(frozen=True)
class RunCheckpoint:
    """A run as it stood after a round."""

    state: GlobalState
    rows: Sequence[Row]
    agents: Mapping[str, dict[str, Parts]]


class RunDir:
    """Where a run keeps what it must not lose."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, setup: Setup, *, resume: bool) -> None:
        """Make the directory this run's own; another run's is left alone."""
        config = json.loads(json.dumps(resolved(setup)))
        config_file = self.path / "config.json"
        if config_file.exists():
            if not resume:
                raise CheckpointError(
                    f"{self.path} already holds a run",
                    "--resume continues it; or name another --out",
                )
            recorded = with_defaults(json.loads(config_file.read_text()), defaults_of(setup))
            if _but_rounds(recorded) != _but_rounds(config):
                raise CheckpointError(
                    f"{self.path} holds a run with other settings", "name another --out"
                )
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / "samples.npz", setup.usage.packed())
        write_whole(config_file, json.dumps(config, indent=1).encode())

    def save(
        self,
        round: int,
        state: GlobalState,
        rows: Sequence[Row],
        agents: Mapping[str, dict[str, Parts]],
    ) -> None:
        """A checkpoint is whole or not there: it gets its name last."""
        new = self.path / f".checkpoint-{os.getpid()}"
        shutil.rmtree(new, ignore_errors=True)
        (new / "agents").mkdir(parents=True)
        write_whole(new / "state.cbor", pack_state(state))
        write_whole(new / "rows.json", json.dumps([to_plain(row) for row in rows]).encode())
        for name, groups in agents.items():
            write_whole(
                new / "agents" / f"{name}.cbor",
                pack({f"memory/{g}": parts for g, parts in groups.items()}),
            )
        old = self._checkpoints()
        new.rename(self.path / f"checkpoint-{round:06d}")
        for path in old:
            if path.name != f"checkpoint-{round:06d}":
                shutil.rmtree(path)

    def latest(self, setup: Setup) -> RunCheckpoint | None:
        """The newest checkpoint; None where there is none yet."""
        checkpoints = self._checkpoints()
        if not checkpoints:
            return None
        try:
            rows = [
                from_plain(Row, row)
                for row in json.loads((checkpoints[-1] / "rows.json").read_text())
            ]
            state = unpack_state((checkpoints[-1] / "state.cbor").read_bytes())
            agents = {
                name: _memory(checkpoints[-1] / "agents" / f"{name}.cbor") for name in setup.agents
            }
        except (OSError, ValueError, FleetError) as error:
            raise CheckpointError(f"{checkpoints[-1]} cannot be read: {error}") from error
        return RunCheckpoint(state, rows, agents)

    def result(self, setup: Setup) -> dict[str, Any] | None:
        """The document of this very run, if it is finished."""
        path = self.path / "result.json"
        if not path.exists():
            return None
        result: dict[str, Any] = json.loads(path.read_text())
        recorded = with_defaults(result.get("config", {}), defaults_of(setup))
        return result if recorded == json.loads(json.dumps(resolved(setup))) else None

    def finish(self, outcome: Outcome) -> None:
        """Leave the result, its table, the state and the pictures."""
        from simulators.run import pictures

        write_whole(self.path / "rounds.csv", table(outcome.rows).encode())
        write_whole(self.path / "state.cbor", pack_state(outcome.state))
        write_whole(self.path / "result.json", json.dumps(document(outcome), indent=1).encode())
        pictures.draw(outcome, self.path)

    def _checkpoints(self) -> list[Path]:
        return sorted(self.path.glob("checkpoint-*")) if self.path.exists() else []


def defaults_of(setup: Setup) -> dict[str, Any]:
    """What `config.json` says of a run in which nobody chose anything, as far as there are
    defaults.
    """
    contract = {
        field.name: field.default for field in fields(Contract) if field.default is not MISSING
    }
    defaults = {
        **to_plain(Run()),
        "partition_options": to_plain(PartitionOptions()),
        "settings": to_plain(type(setup.hyper)()),
        "admission": to_plain(UploadLimits()),
        "masks": to_plain(MaskOptions()),
        "budget": to_plain(BudgetOptions()),
        "contract": {
            **to_plain(contract),
            "training": to_plain(Training()),
            "numerics": to_plain(Numerics()),
        },
    }
    plain: dict[str, Any] = json.loads(json.dumps(defaults))
    return plain


def with_defaults(recorded: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded configuration, and the options that it does not know of at their defaults."""
    whole = {**defaults, **recorded}
    for name, below in defaults.items():
        if isinstance(below, Mapping) and isinstance(whole[name], Mapping):
            whole[name] = with_defaults(whole[name], below)
    return whole


def _but_rounds(config: dict[str, Any]) -> dict[str, Any]:
    """A run may be continued to more rounds: nothing in a round depends on how many will follow."""
    return {name: value for name, value in config.items() if name != "rounds"}


def _memory(path: Path) -> dict[str, Parts]:
    return {
        group.removeprefix("memory/"): parts for group, parts in unpack(path.read_bytes()).items()
    }
