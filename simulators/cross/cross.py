"""`protofleet bench cross`: `fleet` against the papers' methods on five tasks, seed by seed on the
same devices; and on the papers' own devices for as many rounds as the papers have.
"""

# Theory of operation
#
# A run is of a task, a contender and a seed. The same seed deals the same devices to every
# contender, so differences are paired. It lies in OUT/TASK/CONTENDER/SEED, and what the tables need
# of it is kept as a record (`cross_records.py`), which another machine does not run again; either
# counts only under the very settings that it was made with.
#
# The five tasks are short (20 to 60 rounds): enough to tell methods apart, and every contender is
# there, with its ablations. Rivals may say that their methods want more. So there are the papers'
# own devices at the papers' own length (`FULL_TASKS`), for the papers' methods alone:
#
#     task                     devices                   rounds    asked
#     paper-fashion            FedMPS's, Fashion-MNIST   800       among a device's own classes
#     paper-cifar10            FedMPS's, CIFAR-10        500       among a device's own classes
#     ...-everyone             the same                  the same  everyone's test samples, all
#                                                                  classes
#
# 1. On everyone's samples a device's own prior does not help: it is asked for what it never saw.
# 2. Evaluating changes nothing, so the runs of `...-everyone` are those of the task before it: the
#    weights that a run left are asked once more, after the last round alone.
# 3. `fleet` trains no extractor and adds up what devices hold: what it says after a few rounds it
#    says after eight hundred. It has as many as in the short tasks, and its bytes are of these.

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from protofleet.util.files import Locked, lock, write_whole
from simulators.cross import cross_records
from simulators.papers.cell import Places, at_seed, changed, finished
from simulators.papers.protocols import CIFAR, FASHION, MPS_CIFAR, MPS_FASHION, POOLED, quick
from simulators.run.comparison import result_of
from simulators.run.config import LabConfig
from simulators.run.rounds import asked_again
from simulators.run.rundir import RunDir
from simulators.run.setup import prepare
from simulators.run.workers import Local

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
    rounds: Mapping[str, int] = field(default_factory=dict)  # of methods that have others
    asks_again: Task | None = None  # the runs are that task's, asked on other samples


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
        rounds = task.rounds.get(self.method, config.run.rounds)
        return changed(config, (), method=self.method, rounds=rounds, **dict(self.changes))


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


def _full(name: str, title: str, config: LabConfig, short: Task, gamma: float) -> tuple[Task, Task]:
    """A paper's devices at its full length, and the same on one test set for all."""
    settings = {**short.settings, "protonorm": (f"gamma={gamma:g}",)}
    few = {OURS: short.config.run.rounds}
    # Its own settings are FedMPS's, which the task hands to it alone.
    own = Task(name, title, replace(config, settings=()), settings, _OWN, few)
    everyone = replace(
        own,
        name=f"{name}-everyone",
        title=f"{title}; everyone's test samples",
        config=changed(own.config, test_on="everyone"),
        compared=_ALL,
        asks_again=own,
    )
    return own, everyone


_FULL_FASHION = _full(
    "paper-fashion",
    "Fashion-MNIST, FedMPS's devices and network, 800 rounds",
    MPS_FASHION,
    TASKS[0],
    175,
)
_FULL_CIFAR = _full(
    "paper-cifar10",
    "CIFAR-10, FedMPS's devices, 500 rounds",
    MPS_CIFAR,
    TASKS[1],
    50,
)
FULL_TASKS = (_FULL_CIFAR[0], _FULL_FASHION[0], _FULL_CIFAR[1], _FULL_FASHION[1])
ALL_TASKS = (*TASKS, *FULL_TASKS)

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
FULL_CONTENDERS = (FLEET, NO_PRIOR, *PAPERS)


def config_of(task: Task, contender: Contender, seed: int) -> LabConfig:
    """One run; the same seed deals out the same data to every contender."""
    config = contender.on(task)
    if dict(contender.changes).get("backbone") == "task":
        config = changed(config, backbone=task.config.run.backbone)
    return at_seed(config, seed)


def plan(
    seeds: int, tasks: Sequence[str], names: Sequence[str]
) -> Iterator[tuple[Task, Contender, int]]:
    """Everything there is to run: seed by seed, so that what is there can be compared early."""
    # The order of what one wants to know first; seed by seed, a page can be made at any time.
    groups = (
        (TASKS, (FLEET, *PAPERS)),
        (TASKS, ABLATION),
        (TASKS, IMPROVED),
        (FULL_TASKS, FULL_CONTENDERS),
    )
    for some, contenders in groups:
        for seed in range(seeds):
            for task in some:
                for contender in contenders:
                    if (not tasks or task.name in tasks) and (not names or contender.name in names):
                        yield task, contender, seed


def run(task: Task, contender: Contender, seed: int, places: Places, workers: int) -> None:
    """This run, if it is not there yet and nobody is at it; what is kept of it is written when it
    is over.
    """
    if document_of(task, contender, seed, places) is None:
        try:
            with lock(place(places, task, contender, seed)):
                _run(task, contender, seed, places, workers)
        except Locked:
            return
    _keep(task, contender, seed, places)


def _run(task: Task, contender: Contender, seed: int, places: Places, workers: int) -> None:
    path, config = place(places, task, contender, seed), config_of(task, contender, seed)
    if task.asks_again is None:
        label = f"{task.name} {contender.name} {seed}"
        result_of(label, prepare(config), Local(workers), path, resume=True)
        return
    whole = task.asks_again
    setup, folder = prepare(config), RunDir(place(places, whole, contender, seed))
    # A record is not enough here: the weights are asked.
    if finished(folder.path, config_of(whole, contender, seed)) is None:
        with lock(folder.path):
            _run(whole, contender, seed, places, workers)
    saved = folder.latest(setup)
    assert saved is not None, "a run that has ended left its weights"
    row = asked_again(setup, saved)
    before = json.loads((folder.path / "result.json").read_text())
    # Only the last round was asked; in the others there is what crossed.
    rows = [{**each, "accuracy": {}} for each in before["rounds"]]
    rows[-1] = {**rows[-1], "accuracy": dict(row.accuracy)}
    best = {name: {"round": row.round, "accuracy": a} for name, a in row.accuracy.items()}
    document = {
        "config": {**before["config"], "test_on": config.run.test_on},
        "rounds": rows,
        "final": {"each": dict(row.accuracy)},
        "best": {"each": best},
        "partition": before["partition"],
    }
    path.mkdir(parents=True, exist_ok=True)
    write_whole(path / "result.json", json.dumps(document).encode())


def document_of(
    task: Task, contender: Contender, seed: int, places: Places
) -> Mapping[str, Any] | None:
    """What a finished run says, from its folder or from its record."""
    config = config_of(task, contender, seed)
    document = finished(place(places, task, contender, seed), config)
    if document is None and places.records is not None:
        return cross_records.read(_record(task, contender, seed, places.records), config)
    return document


def _keep(task: Task, contender: Contender, seed: int, places: Places) -> None:
    config = config_of(task, contender, seed)
    document = finished(place(places, task, contender, seed), config)
    if document is not None and places.records is not None:
        path = _record(task, contender, seed, places.records)
        cross_records.write(path, config, document, tuple(task.compared.values()))


def _record(task: Task, contender: Contender, seed: int, records: Path) -> Path:
    return records / task.name / contender.name / f"{seed}.json"


def finished_runs(
    task: Task, contender: Contender, seeds: int, places: Places
) -> dict[int, Mapping[str, Any]]:
    """The finished runs' documents, by seed."""
    documents = {s: document_of(task, contender, s, places) for s in range(seeds)}
    return {seed: document for seed, document in documents.items() if document is not None}


def place(places: Places, task: Task, contender: Contender, seed: int) -> Path:
    """Where a run is kept."""
    return places.runs / task.name / contender.name / str(seed)
