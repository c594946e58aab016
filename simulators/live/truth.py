"""`protofleet bench truth`: a run in the lab and the same on a live fleet, which must end in the
same state.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator.service.extractors import RANDOM
from simulators.live import contributions, fleet
from simulators.run import rounds as lab
from simulators.run.config import LabConfig, MaskOptions, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.setup import Setup, prepare

# Settings under which a method exchanges within a few rounds on digits; both kinds of round are in
# such a run.
SETTINGS = {"gfpl": ("start=2", "interval=2", "threshold=1000")}
PLAIN = MaskOptions()


@dataclass(frozen=True)
class Compared:
    """Hashes of the final states, and how long it took; `masked` is the laboratory's with masks,
    where the fleet has them.
    """

    lab: str
    fleet: str
    lab_seconds: float
    fleet_seconds: float
    masked: str = ""

    @property
    def same(self) -> bool:
        """Whether they are one and the same."""
        return {self.lab, self.masked or self.lab} == {self.fleet}


def compare_engines(
    method: str,
    agents: int,
    rounds: int,
    participation: float = 1.0,
    masks: MaskOptions = PLAIN,
) -> Compared:
    """Digits, dealt out unevenly; with masks the fleet's sums and the laboratory's are masked, and
    held to the laboratory's plain ones.
    """
    run = Run(
        method=method,
        agents=agents,
        partition="dirichlet",
        rounds=rounds,
        participation=participation,
        seed=3,
    )
    config = LabConfig(run, PartitionOptions(alpha=0.3), settings=SETTINGS.get(method, ()))
    setup, live = prepare(config), prepare(replace(config, masks=masks))
    if setup.recipe.traits.frozen:
        return _of_a_ledger(live)  # its laboratory adds up plainly, whatever the fleet does
    began = time.perf_counter()
    here = lab.run(setup, lab.LabOptions(), lambda row: None).state.sha256
    between, masked = time.perf_counter(), ""
    if masks.secure_sum:
        # In the laboratory so many devices are lost as a fleet may lose: here nobody is.
        whole = prepare(replace(config, masks=replace(masks, dropouts=0)))
        masked = lab.run(whole, lab.LabOptions(), lambda row: None).state.sha256
        between = time.perf_counter()
    with TemporaryDirectory(prefix="protofleet-") as folder:
        there = fleet.run(live, Path(folder), lambda row: None).state.sha256
    return Compared(here, there, between - began, time.perf_counter() - between, masked)


def _of_a_ledger(setup: Setup) -> Compared:
    """Where there are no rounds: the laboratory adds up what devices see through the fleet's own
    extractor, so the fleet comes first.
    """
    began = time.perf_counter()
    with TemporaryDirectory(prefix="protofleet-") as folder:
        there = fleet.run(setup, Path(folder), lambda row: None).state.sha256
        between = time.perf_counter()
        bundle = Path(folder) / "coordinator-data" / RANDOM
        here = contributions.laboratory(setup, bundle).sha256
    return Compared(here, there, time.perf_counter() - between, between - began)
