"""The training process as the daemon sees it, with a program that takes its place: answers in
order, deaths told once, and nothing of a process that was dismissed.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from edge_agent.config import DataSection, LimitsSection
from edge_agent.protocol.actions import Train
from edge_agent.protocol.events import RoundSpec
from edge_agent.worker import supervisor
from edge_agent.worker.ipc import DataSurvey, Job, Notice, SurveyData, Work, WorkerEnded
from edge_agent.worker.supervisor import WorkerSupervisor

ROOT = Path(__file__).parents[3]
# Answers a survey with two words; an order to train is an order to die, by what its run is called.
PROGRAM = """
import os, sys, time
sys.path.insert(0, {root!r})
from multiprocessing.connection import Connection
from edge_agent.worker.ipc import DataSurvey, Notice, SurveyData
pipe = Connection(int(sys.argv[1]))
job = pipe.recv()
while True:
    order = pipe.recv()
    if isinstance(order, SurveyData):
        pipe.send(Notice(job.agent))
        pipe.send(DataSurvey((str(os.getpid()),), 1))
        continue
    how, _, code = order.task.run.partition(" ")
    if how == "exit":
        os._exit(int(code))
    if how == "signal":
        os.kill(os.getpid(), int(code))
    time.sleep(0.2)
    pipe.send(Notice("late"))
"""


@pytest.fixture
def boss(tmp_path, monkeypatch):
    program, python = tmp_path / "worker.py", tmp_path / "python"
    program.write_text(PROGRAM.format(root=str(ROOT)))
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$3" "$4"\n')
    python.chmod(0o755)
    monkeypatch.setattr(supervisor.sys, "executable", str(python))
    job = Job("camera", tmp_path, "b" * 16, DataSection(), None, LimitsSection())
    boss = Woken(job)
    yield boss
    boss.dismiss()


class Woken(WorkerSupervisor):
    """With a loop that sleeps until it is woken."""

    def __init__(self, job):
        self.bell = threading.Event()
        super().__init__(job, self.bell.set)

    def until(self, enough):
        answers, end = [], time.monotonic() + 30
        while not enough(answers):
            assert self.bell.wait(end - time.monotonic()), f"no end after {answers}"
            self.bell.clear()
            answers += self.answers()
        return answers


def train(run):
    return Work(Train(run, 1, 0, "", False, False, RoundSpec(run, "local", {}, {})), 0)


def ended(answers):
    return any(isinstance(answer, WorkerEnded) for answer in answers)


def test_answers_come_in_order_and_wake_who_waits(boss):
    boss.order(SurveyData())
    assert boss.until(lambda answers: len(answers) == 2) == [
        Notice("camera"),
        DataSurvey((str(boss.pid),), 1),
    ]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("exit 3", "the training process ended (exit code 3)"),
        (f"signal {int(signal.SIGABRT)}", "the training process ended (SIGABRT)"),
        (
            f"signal {int(signal.SIGKILL)}",
            "the training process was killed, perhaps for want of memory",
        ),
    ],
)
def test_a_death_is_told_once_with_its_cause_and_the_next_order_finds_a_process(boss, how, words):
    boss.order(train(how))
    assert boss.until(ended) == [WorkerEnded(words)]
    assert (boss.answers(), boss.pid) == ([], None)
    boss.order(SurveyData())
    assert len(boss.until(lambda answers: len(answers) == 2)) == 2


def test_one_that_died_idle_is_replaced_by_the_next_order(boss):
    boss.order(SurveyData())
    boss.until(lambda answers: len(answers) == 2)
    first = boss.pid
    boss.bell.clear()
    os.kill(first, signal.SIGKILL)
    assert boss.bell.wait(30)  # it is dead, and the loop has not looked
    boss.order(SurveyData())
    survey = boss.until(lambda answers: len(answers) == 2)[-1]
    assert survey.classes == (str(boss.pid),) != (str(first),)


def test_a_dismissed_process_is_gone_and_what_it_still_said_is_not_read(boss):
    boss.order(SurveyData())
    boss.bell.wait(30)
    pid = boss.pid
    boss.dismiss()
    assert boss.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    time.sleep(0.1)
    assert boss.answers() == []


def test_the_process_does_not_know_the_broker_s_password(boss, monkeypatch):
    monkeypatch.setenv("PROTOFLEET_MQTT_PASSWORD", "s3cr3t")
    monkeypatch.setenv("PROTOFLEET_BROKER_URL", "mqtts://camera:s3cr3t@b")
    monkeypatch.setenv("PROTOFLEET_DATA", "/data")
    boss.order(SurveyData())
    boss.until(lambda answers: len(answers) == 2)
    environ = Path(f"/proc/{boss.pid}/environ").read_bytes()
    assert b"s3cr3t" not in environ
    assert b"PROTOFLEET_DATA=/data" in environ
