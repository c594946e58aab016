"""`protofleet bench cross`: `fleet` against the papers' methods on five tasks, seed by seed on the
same devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulators.papers.cell import at_seed, changed, finished
from simulators.papers.protocols import CIFAR, FASHION, POOLED, quick
from simulators.run.comparison import result_of
from simulators.run.config import LabConfig
from simulators.run.setup import prepare

OURS = "fleet"


@dataclass(frozen=True)
class Task:
    """Data, devices and training that every contender is given; `settings` are what a paper has for
    such data.
    """

    name: str
    title: str
    config: LabConfig
    settings: Mapping[str, tuple[str, ...]]
    compared: Mapping[str, str]  # the evaluators that answer here: by prototypes, and by head


@dataclass(frozen=True)
class Contender:
    """A method, as its paper has it or with something changed; settings of its own go after the
    task's.
    """

    name: str
    title: str
    method: str
    settings: tuple[str, ...] = ()
    changes: tuple[tuple[str, object], ...] = ()

    def on(self, task: Task) -> LabConfig:
        """Its run of the task."""
        config = replace(
            task.config, settings=(*task.settings.get(self.method, ()), *self.settings)
        )
        if self.method == OURS:
            config = changed(
                config, backbone="", compile=False
            )  # it brings its own, which never learns
        return changed(config, (), method=self.method, **dict(self.changes))


_OWN = {"prototype": "prototype", "head": "head_own_classes"}
_ALL = {"prototype": "prototype_all_classes", "head": "head"}


def _dirichlet(alpha: float) -> LabConfig:
    config = changed(
        FASHION, dataset="cifar10", partition="dirichlet", alpha=alpha, limit=6000, backbone="lenet"
    )
    return quick(changed(config, partition_seed=None, rounds=40))


# ProtoNorm's γ is 100 for d = 512; elsewhere it puts a coordinate equally far out. FedMPS's weights
# are its paper's.
TASKS = (
    Task(
        "fashion",
        "Fashion-MNIST, few-shot (3 ± 2 classes, 100 samples each)",
        quick(changed(FASHION, partition_seed=None, test_shots=40, rounds=30)),
        {"fedmps": ("alpha=1", "mu=1"), "protonorm": ("gamma=30",)},
        _OWN,
    ),
    Task(
        "cifar10",
        "CIFAR-10, few-shot (3 ± 1 classes, 100 samples each)",
        quick(changed(CIFAR, partition_seed=None, test_shots=40, rounds=60)),
        {"protonorm": ("gamma=50",)},
        _OWN,
    ),
    Task(
        "dir-0.1",
        "CIFAR-10, Dir(0.1), 6,000 images",
        _dirichlet(0.1),
        {"protonorm": ("gamma=50",)},
        _OWN,
    ),
    Task(
        "dir-0.5",
        "CIFAR-10, Dir(0.5), 6,000 images",
        _dirichlet(0.5),
        {"protonorm": ("gamma=50",)},
        _OWN,
    ),
    Task(
        "mnist",
        "MNIST, Dir(0.05), 2,000 samples on 5 devices, everyone's test samples",
        changed(POOLED, common_start="auto", rounds=20),
        {"protonorm": ("gamma=70",)},
        _ALL,
    ),
)

PAPERS = tuple(
    Contender(method, title, method)
    for method, title in (
        ("fedproto", "FedProto"),
        ("fedmps", "FedMPS"),
        ("gfpl", "GFPL"),
        ("protonorm", "ProtoNorm"),
        ("mpfedcl", "MP-FedCL"),
        ("fedic", "FedIC"),
    )
)
# What anybody could add to any method at no cost in bytes; without it, fleet's lead might be that
# of its one extractor for all.
FREE = (("common_start", "yes"), ("averaging", 10))
IMPROVED = tuple(
    replace(each, name=f"{each.name}+", title=f"{each.title} +", changes=FREE) for each in PAPERS
)
FLEET = Contender(OURS, "fleet", OURS)
NO_PRIOR = Contender("no-prior", "fleet without the device's prior", OURS, ("smooth=1e9",))
ABLATION = (
    NO_PRIOR,
    Contender("no-spread", "fleet with each feature's variance alone", OURS, ("rank=0",)),
    Contender("bare", "fleet without both", OURS, ("rank=0", "smooth=1e9")),
    Contender(
        "untrained", "fleet on the task's own network, as drawn", OURS, (), (("backbone", "task"),)
    ),
    Contender(
        "frozen-alone",
        "a classifier trained alone on the same extractor",
        "local",
        (),
        (("backbone", "fixed"), ("freeze", True)),
    ),
    Contender(
        "frozen-proto",
        "FedProto on the same extractor",
        "fedproto",
        (),
        (("backbone", "fixed"), ("freeze", True)),
    ),
    Contender(
        "frozen-avg",
        "FedAvg of a classifier on the same extractor",
        "fedavg",
        (),
        (("backbone", "fixed"), ("freeze", True)),
    ),
)
CONTENDERS = (FLEET, *PAPERS, *ABLATION, *IMPROVED)


def config_of(task: Task, contender: Contender, seed: int) -> LabConfig:
    """One run; the same seed deals out the same data to every contender."""
    config = contender.on(task)
    if dict(contender.changes).get("backbone") == "task":
        config = changed(config, backbone=task.config.run.backbone)
    return at_seed(config, seed)


def plan(
    seeds: int, tasks: tuple[str, ...], names: tuple[str, ...]
) -> Iterator[tuple[Task, Contender, int]]:
    """Everything there is to run: seed by seed, so that what is there can be compared early."""
    # The order of what one wants to know first; seed by seed, a page can be made at any time.
    for group in ((FLEET, *PAPERS), ABLATION, IMPROVED):
        for seed in range(seeds):
            for task in TASKS:
                for contender in group:
                    if (not tasks or task.name in tasks) and (not names or contender.name in names):
                        yield task, contender, seed


def run(task: Task, contender: Contender, seed: int, out: Path, workers: int) -> None:
    """This run, if it is not there yet."""
    path, config = place(out, task, contender, seed), config_of(task, contender, seed)
    if finished(path, config) is None:
        result_of(
            f"{task.name} {contender.name} {seed}", prepare(config), workers, path, resume=True
        )


def finished_runs(
    task: Task, contender: Contender, seeds: int, out: Path
) -> dict[int, dict[str, Any]]:
    """The finished runs' documents, by seed."""
    documents = {
        s: finished(place(out, task, contender, s), config_of(task, contender, s))
        for s in range(seeds)
    }
    return {seed: document for seed, document in documents.items() if document is not None}


def place(out: Path, task: Task, contender: Contender, seed: int) -> Path:
    """Where a run is kept."""
    return out / task.name / contender.name / str(seed)
