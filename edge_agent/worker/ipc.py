"""What daemon and training process say to each other through their pipe: plain values, and nothing
that needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edge_agent.config import DataSection, LimitsSection
from edge_agent.protocol.actions import Evaluate, Train
from protofleet.wire.codes import Scope


@dataclass(frozen=True)
class Job:
    """What a training process has to know, once, when it starts."""

    agent: str
    folder: Path
    boot: str
    data: DataSection
    data_dir: Path | None
    limits: LimitsSection
    export_every: int = 0
    export_to: Path = Path("bundle")


@dataclass(frozen=True)
class SurveyData:
    """Say what there is to learn from."""


@dataclass(frozen=True)
class Work:
    """Train or measure; `version` counts how often the samples changed."""

    task: Train | Evaluate
    version: int


@dataclass(frozen=True)
class DataSurvey:
    """The answer to `SurveyData`."""

    classes: tuple[str, ...]
    samples: int


@dataclass(frozen=True)
class Measured:
    """How the device classifies with a state: per split and evaluator (right answers, samples)."""

    run: str
    round: int
    tallies: Mapping[str, Mapping[str, tuple[int, int]]]


@dataclass(frozen=True)
class Notice:
    """Something the device's owner should know."""

    words: str


@dataclass(frozen=True)
class TaskDone:
    """An order was carried out; `device` is what computed it: cpu, cuda or mps."""

    task: Train | Evaluate
    seconds: float
    peak_mb: int
    device: str = ""


@dataclass(frozen=True)
class TaskFailed:
    """An order could not be carried out."""

    task: Train | Evaluate | SurveyData
    words: str
    code: str
    scope: Scope


@dataclass(frozen=True)
class WorkerEnded:
    """The training process is no more."""

    words: str


Order = SurveyData | Work
Answer = DataSurvey | Measured | Notice | TaskDone | TaskFailed | WorkerEnded
