"""Orders and answers cross a pipe as they are, and a daemon that gives them needs no torch."""

import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path

import pytest

from edge_agent.config import DataSection, LimitsSection
from edge_agent.protocol.actions import Evaluate, Train
from edge_agent.protocol.events import RoundSpec
from edge_agent.worker.ipc import (
    DataSurvey,
    Job,
    Measured,
    Notice,
    SurveyData,
    TaskDone,
    TaskFailed,
    Work,
    WorkerEnded,
)
from protofleet.wire.codes import Scope

SPEC = RoundSpec("r", "fedproto", {"classes": ["a"]}, {"lam": 1.0})
TRAIN = Train("r", 2, 1, "ab" * 32, True, False, SPEC)
EVALUATE = Evaluate("r", 2, 1, "ab" * 32, False, SPEC)


@pytest.mark.parametrize(
    "message",
    [
        Job("a", Path("kept"), "b" * 16, DataSection("digits"), None, LimitsSection(), 5),
        SurveyData(),
        Work(TRAIN, 3),
        Work(EVALUATE, 0),
        DataSurvey(("a", "b"), 7),
        Measured("r", 1, {"test": {"prototype": (3, 4)}}),
        Notice("left out"),
        TaskDone(TRAIN, 1.5, 200, "cpu"),
        TaskFailed(SurveyData(), "no samples", "bad-data", Scope.DEVICE),
        WorkerEnded("killed"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_is_said_arrives_as_it_was(message):
    ours, theirs = Pipe()
    with ours, theirs:
        ours.send(message)
        assert theirs.recv() == message


def test_giving_orders_needs_no_torch():
    code = "import edge_agent.worker.supervisor, sys; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
