"""A run's directory: checkpoints to continue from, and what is left for people and programs at the
end.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protofleet.errors import CheckpointError, FleetError
from protofleet.exchange.snapshot import pack, pack_state, unpack, unpack_state
from protofleet.exchange.state import GlobalState
from protofleet.settings.fields import from_plain, to_plain
from protofleet.util.files import write_whole
from protofleet.values.prototypes import Parts
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
            if _but_rounds(json.loads(config_file.read_text())) != _but_rounds(config):
                raise CheckpointError(
                    f"{self.path} holds a run with other settings", "name another --out"
                )
        self.path.mkdir(parents=True, exist_ok=True)
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
        return result if result.get("config") == json.loads(json.dumps(resolved(setup))) else None

    def finish(self, outcome: Outcome) -> None:
        """Leave the result, its table, the state and the pictures."""
        from simulators.run import pictures

        write_whole(self.path / "result.json", json.dumps(document(outcome), indent=1).encode())
        write_whole(self.path / "rounds.csv", table(outcome.rows).encode())
        write_whole(self.path / "state.cbor", pack_state(outcome.state))
        pictures.draw(outcome, self.path)

    def _checkpoints(self) -> list[Path]:
        return sorted(self.path.glob("checkpoint-*")) if self.path.exists() else []


def _but_rounds(config: dict[str, Any]) -> dict[str, Any]:
    """A run may be continued to more rounds: nothing in a round depends on how many will follow."""
    return {name: value for name, value in config.items() if name != "rounds"}


def _memory(path: Path) -> dict[str, Parts]:
    return {
        group.removeprefix("memory/"): parts for group, parts in unpack(path.read_bytes()).items()
    }
