"""Bundles that other commands make for a coordinator, which has no torch itself: of a run, and of
random filters where nobody named an extractor.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from coordinator.config import FleetConfig
from coordinator.journal.journal import Journal
from coordinator.ledger.catalogue import NAMED
from protofleet.contract import Input
from protofleet.errors import DataError
from protofleet.recipe import Recipe
from protofleet.util.files import OWN_FILE
from protofleet.util.logs import Log
from protofleet.util.processes import without_secrets

RANDOM = "random.pfb"  # in the data directory


def of_plan(plan: FleetConfig, recipe: Recipe[Any], journal: Journal, log: Log) -> Path | None:
    """What all devices are to see through, by the settings; None where they say nothing, or said it
    before.
    """
    if not recipe.traits.frozen:
        return None
    if plan.contract.extractor:
        return Path(plan.contract.extractor)
    if journal.meta(NAMED) is not None:
        return None
    file = plan.data_dir / RANDOM
    if not file.exists():
        log.info("no extractor is named: random filters are made", file=file)
        assert plan.contract.input is not None  # settings without one and without an extractor
        random(plan.contract.input, plan.contract.seed, plan.serve.fleet, file)
    return file


def export(source: Path, out: Path) -> None:
    """A run's extractor as a bundle."""
    words = ["export", "--freeze", "--from", str(source), "--out", str(out)]
    if why := _run(words):
        raise DataError(f"{source} is no bundle and cannot be exported: {why}")


def random(input: Input, seed: int, fleet: str, out: Path) -> None:
    """Filters that never learnt, for images of this size; sums for vectors and series."""
    scale = f"{_numbers(input.mean)}/{_numbers(input.std)}" if input.mean else ""
    sizes = input.shape
    if input.kind == "image":
        sizes, scale = sizes[:2], scale or "0..1"
    words = ["extractor", "random", "--kind", input.kind, "--size", "x".join(map(str, sizes))]
    words += ["--channels", str(input.shape[2])] if input.kind == "image" else []
    # With an equals sign: a scale may begin with a minus.
    words += [f"--scale={scale}"] if scale else []
    words += ["--seed", str(seed), "--fleet", fleet, "--out", str(out)]
    if why := _run(words):
        hint = 'contract.extractor = "X.pfb" names what `protofleet extractor` made elsewhere'
        raise DataError(f"random filters cannot be made here: {why}", hint)
    if out.exists():
        out.chmod(OWN_FILE)


def _run(words: list[str]) -> str:
    """A command of the export room; its own last words if it fails."""
    environ = without_secrets(os.environ)
    run = subprocess.run(
        [sys.executable, "-m", "protofleet", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    if not run.returncode:
        return ""
    # The command's own line without its prefix and code: the error made of it adds its own.
    last = (run.stderr.strip() or "error: no word why").splitlines()[-1]
    return re.sub(r"^error: | \([a-z-]+\)$", "", last)


def _numbers(values: tuple[float, ...]) -> str:
    return ",".join(f"{number:.9g}" for number in values)
