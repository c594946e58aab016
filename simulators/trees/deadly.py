"""A tree of sites that die again and again, beside the same devices under one coordinator: both by
real processes over real brokers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.journal.journal import Journal
from simulators.faults.testbed import until
from simulators.trees.contributors import Contributor, contributors
from simulators.trees.tree import TOP, Tree, TreeShape, seeds_of, tree

PATIENCE = 180.0
LIFE = 3.0  # seconds that a site lives at most before it dies


@dataclass(frozen=True)
class TreeOptions:
    """How large, and how often sites die."""

    sites: int = 3
    devices: int = 30
    kills: int = 50
    seed: int = 0
    signed: bool = False


def bench_sites(options: TreeOptions, folder: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Hashes of both, and what the tree took for its own."""
    seeds, grown = _tree(options, folder / "tree", tell)
    alone = _alone(options, folder / "alone", seeds, tell)
    return {
        **vars(options),
        **grown,
        "alone": alone,
        "same": grown["state"] == alone,
    }


def _tree(
    options: TreeOptions, folder: Path, tell: Callable[[str], None]
) -> tuple[dict[str, int | None], dict[str, Any]]:
    rng, shape = random.Random(options.seed), TreeShape.of(options.sites, options.devices)
    with tree(folder, shape, [], signed=options.signed) as made:
        made.start(TOP)
        lives = {name: made.start(name) for name in shape.parents}
        devices = made.contributors()
        with contributors(devices):
            began = time.monotonic()
            first = made.expected(seeds_of(devices))
            until(lambda: made.comes_to(first), "the first state", PATIENCE)
            seconds = {"first": time.monotonic() - began}
            for number in range(options.kills):
                _change(devices, rng)
                time.sleep(rng.uniform(0.0, LIFE))
                name = rng.choice(sorted(lives))
                lives[name].kill()
                lives[name] = made.start(name)
                tell(f"{number + 1} of {options.kills} deaths")
            began = time.monotonic()
            state = made.expected(seeds_of(devices))
            until(lambda: made.comes_to(state), "the last state", PATIENCE)
            seconds["after_all_deaths"] = time.monotonic() - began
            made.judge(devices)
            sizes = _sizes(made)
            return seeds_of(devices), {"state": state, "seconds": seconds, "bytes": sizes}


def _change(devices: list[Contributor], rng: random.Random) -> None:
    """Two say something else, now and then one takes all of it back."""
    for one in rng.sample(devices, min(2, len(devices))):
        one.seed = rng.randint(1, 1000) if rng.random() < 0.9 else None


def _sizes(made: Tree) -> Mapping[str, int]:
    """Of what devices said to their sites, and of what the sites say of it."""
    sizes = {}
    for where, names in (("from_devices", made.shape.parents), ("from_sites", [TOP])):
        sizes[where] = 0
        for name in names:
            journal = Journal.read(made.data(name))
            try:
                sizes[where] += sum(len(body) for _, body in journal.ledger.bodies())
            finally:
                journal.close()
    return sizes


def _alone(
    options: TreeOptions,
    folder: Path,
    seeds: Mapping[str, int | None],
    tell: Callable[[str], None],
) -> str:
    """The same devices under one coordinator: what it comes to by itself."""
    number = sum(seed is not None for seed in seeds.values())
    with tree(folder, TreeShape.of(0, options.devices), [], signed=options.signed) as made:
        made.start(TOP)
        devices = made.contributors()
        for one in devices:
            one.seed = seeds[one.agent]
        tell("the same devices under one coordinator")
        with contributors(devices):

            def whole() -> bool:
                ledger = made.status().get("ledger") or {}
                everybody = ledger.get("devices") == ledger.get("counted") == number
                return bool(everybody and ledger.get("current") and ledger.get("settled"))

            until(whole, "everybody's counts", PATIENCE)
            return str(made.status()["ledger"]["state_sha256"])
