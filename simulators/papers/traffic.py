"""`protofleet bench bytes`: accuracy against what crossed, every method as a curve, on two
partitions of real data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from protofleet import registry
from simulators.papers.cell import changed, finished
from simulators.papers.protocols import FASHION, quick
from simulators.run import plots
from simulators.run.comparison import result_of
from simulators.run.config import LabConfig
from simulators.run.progress import size
from simulators.run.setup import prepare
from simulators.run.workers import Local

EVALUATORS = ("prototype", "head_own_classes")  # both among a device's own classes


@dataclass(frozen=True)
class TrafficTask:
    """A partition on which every method runs."""

    name: str
    title: str
    config: LabConfig
    settings: Mapping[str, tuple[str, ...]]  # where a method's paper has its own for this data

    def of(self, method: str) -> LabConfig:
        """The method's run; one that brings its own network has that."""
        own = {"backbone": ""} if registry.load(method).traits.backbone else {}
        return replace(
            changed(self.config, (), method=method, **own), settings=self.settings.get(method, ())
        )

    def run(self, method: str, out: Path, workers: int) -> None:
        """The method here, if it is not there yet."""
        path, config = out / self.name / method, self.of(method)
        if finished(path, config) is None:
            result_of(f"{self.name} {method}", prepare(config), Local(workers), path, resume=True)


# ProtoNorm's γ is 100 for d = 512; here it puts a coordinate equally far out at d = 50 and 120 (100
# diverges).
TASKS = (
    TrafficTask(
        "fashion",
        "Fashion-MNIST, few-shot: 3 ± 2 classes a device, 100 samples each",
        quick(changed(FASHION, rounds=30)),
        {"fedmps": ("alpha=1", "mu=1"), "protonorm": ("gamma=30",)},
    ),
    TrafficTask(
        "cifar10",
        "CIFAR-10, Dir(0.1), 6,000 images on 20 devices",
        quick(
            changed(
                FASHION,
                dataset="cifar10",
                partition="dirichlet",
                alpha=0.1,
                limit=6000,
                backbone="lenet",
                rounds=40,
            )
        ),
        {"protonorm": ("gamma=50",)},
    ),
)


@dataclass(frozen=True)
class Curve:
    """A method's accuracy after so many bytes a device, up and down; one point for each round."""

    method: str
    evaluator: str
    points: tuple[tuple[float, float], ...]


def curves(task: TrafficTask, out: Path) -> list[Curve]:
    """The finished runs of a scene, the best last accuracy first."""
    finished_curves = []
    for method in registry.names():
        document = finished(out / task.name / method, task.of(method))
        if document:
            finished_curves.append(curve(method, document))
    return sorted(finished_curves, key=lambda drawn: -drawn.points[-1][1])


def curve(method: str, document: Mapping[str, Any]) -> Curve:
    """By whichever of the method's two classifiers does better on validation samples at the end."""
    rounds = document["rounds"]
    checked: dict[str, float] = rounds[-1]["validation"]
    chosen = max((name for name in EVALUATORS if name in checked), key=lambda name: checked[name])
    crossed = accumulate(row["up_bytes"] + row["down_bytes"] for row in rounds)
    devices = len(document["partition"]["agents"])
    points = [
        (total / devices, row["accuracy"][chosen])
        for total, row in zip(crossed, rounds, strict=True)
        if chosen in row["accuracy"]
    ]
    return Curve(method, chosen, tuple(points))


def render(task: TrafficTask, finished_curves: Sequence[Curve]) -> str:
    """A scene's table."""
    lines = [task.title, f"{'':<12}{'accuracy':>10}{'a device sent and received':>28}  read by"]
    for drawn in finished_curves:
        total, accuracy = drawn.points[-1]
        lines.append(
            f"{drawn.method:<12}{100 * accuracy:>8.2f} %{size(total):>28}  {drawn.evaluator}"
        )
    return "\n".join(lines)


def draw(out: Path, path: Path) -> None:
    """Both scenes beside each other."""
    panels = {
        task.title: {drawn.method: drawn.points for drawn in curves(task, out)} for task in TASKS
    }
    plots.against_bytes(panels, path)
