"""A coordinator process that is to be measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from coordinator.service.control import NotRunning, ask
from protofleet.errors import FleetError
from simulators.live.fleet import toml
from simulators.speed import raw

PATIENCE = 60.0
NOTHING: Mapping[str, object] = MappingProxyType({})


@contextmanager
def serving(
    folder: Path,
    url: str,
    fleet: str,
    classes: int,
    embedding: int,
    serve: Mapping[str, object],
    more: Mapping[str, object] = NOTHING,
) -> Iterator[subprocess.Popen[str]]:
    """One that has reached its broker; its data is in `data` of the folder. `more` are further
    sections of its settings.
    """
    file = folder / "fleet.toml"
    contract = {
        "classes": [f"c{i}" for i in range(classes)],
        "embedding": embedding,
        "input": {"kind": "vector", "shape": [4]},
    }
    document = {
        "serve": {"method": "fedproto", "fleet": fleet, "data_dir": "data", **serve},
        "broker": {"url": url},
        "contract": contract,
        **more,
    }
    file.write_text(toml(document))
    command = [sys.executable, "-m", "coordinator", "serve", "--config", str(file)]
    with (folder / "coordinator.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True)
        try:
            raw.until(lambda: _connected(folder, process), PATIENCE)
            yield process
        finally:
            # In good order, so that its journal is whole where figures are read from it afterwards.
            process.terminate()
            process.wait(timeout=30)


def _connected(folder: Path, process: subprocess.Popen[str]) -> bool:
    if process.poll() is not None:
        raise FleetError(f"the coordinator ended; see {folder / 'coordinator.log'}")
    try:
        return bool(ask(folder / "data", "status")["connected"])
    except NotRunning:
        return False
