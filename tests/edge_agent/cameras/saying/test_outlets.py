"""Answers on their way, whatever is at the other end."""

import io
import json
import threading

import pytest

from edge_agent.cameras.saying import outlets
from edge_agent.cameras.saying.answers import SceneAnswer
from edge_agent.cameras.saying.backlog import Backlog, BacklogBounds
from edge_agent.cameras.saying.outlets import Outlet, OutletTerms, Unsaid, Unwelcome
from protofleet.errors import DataError
from protofleet.util.logs import Log
from tests.linking import eventually


def answer(label):
    return SceneAnswer("answer", "door", "", 1000.0, label)


class ScriptedSender:
    """Says what the test lets it."""

    def __init__(self):
        self.lines, self.error, self.closed, self.tries = [], None, False, 0
        self.gate = threading.Event()
        self.gate.set()

    def send(self, line):
        self.tries += 1
        assert self.gate.wait(30)
        if self.error is not None:
            raise self.error
        self.lines.append(json.loads(line)["label"])

    def idle(self): ...

    def close(self):
        self.closed = True


class Stage:
    def __init__(self, folder):
        self.folder, self.log, self.sender = folder, io.StringIO(), ScriptedSender()

    def outlet(self, number=1000):
        bounds = BacklogBounds(number)
        backlog = Backlog(self.folder / "w.db", bounds, wall=lambda: 1000.0)
        outlet = Outlet(OutletTerms("webhook", self.sender, backlog, Log(self.log)))
        outlet.start()
        return outlet

    @property
    def words(self):
        return [line.split(maxsplit=2)[2] for line in self.log.getvalue().splitlines()]


@pytest.fixture
def stage(tmp_path, monkeypatch):
    monkeypatch.setattr(outlets, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(outlets, "LONGEST_WAIT", 0.05)
    return Stage(tmp_path)


def test_answers_are_said_in_order_and_nothing_is_written(stage):
    outlet = stage.outlet()
    for label in "abc":
        outlet.put(answer(label))
    eventually(lambda: stage.sender.lines == ["a", "b", "c"])
    outlet.stop()
    assert stage.sender.closed
    assert not (stage.folder / "w.db").exists()


def test_what_cannot_be_said_is_kept_and_said_later_in_order_with_a_line_for_each_change(stage):
    stage.sender.error = Unsaid("no answer")
    outlet = stage.outlet()
    for label in "abc":
        outlet.put(answer(label))
        eventually(lambda n=stage.sender.tries: stage.sender.tries > n + 1)
    stage.sender.error = None
    eventually(lambda: stage.sender.lines == ["a", "b", "c"])
    outlet.put(answer("d"))
    eventually(lambda: stage.sender.lines[-1] == "d")
    outlet.stop()
    assert stage.words == [
        "webhook: no answer; answers are kept, trying on",
        "webhook: reached again",
    ]


def test_what_was_not_said_when_it_ended_is_said_by_the_next(stage):
    stage.sender.error = Unsaid("no answer")
    outlet = stage.outlet()
    outlet.put(answer("a"))
    outlet.stop()
    stage.sender.error = None
    outlet = stage.outlet()
    eventually(lambda: stage.sender.lines == ["a"])
    outlet.stop()


def test_what_the_other_side_does_not_take_holds_nothing_up(stage):
    stage.sender.error = Unwelcome("410")
    outlet = stage.outlet()
    outlet.put(answer("a"))
    eventually(lambda: stage.words == ["webhook: an answer is not taken: 410"])
    stage.sender.error = None
    outlet.put(answer("b"))
    eventually(lambda: stage.sender.lines == ["b"])
    outlet.stop()


def test_whoever_has_an_answer_never_waits_and_the_oldest_give_way(stage, monkeypatch):
    stage.sender.gate.clear()
    outlet = stage.outlet(number=3)
    for number in range(2 * outlets.MEMORY):
        outlet.put(answer(str(number)))
    stage.sender.error = Unsaid("no answer")
    stage.sender.gate.set()
    eventually(lambda: any("no answer" in words for words in stage.words))
    eventually((stage.folder / "w.db").exists)
    stage.sender.error = None
    eventually(lambda: len(stage.sender.lines) == 3)
    outlet.stop()
    assert stage.sender.lines == [str(2 * outlets.MEMORY - n) for n in (3, 2, 1)]
    assert any("answers are lost" in words for words in stage.words)


def test_a_full_disk_keeps_the_newest_in_memory(stage, monkeypatch):
    def full(self, lines):
        raise DataError("disk full")

    monkeypatch.setattr(Backlog, "put", full)
    stage.sender.error = Unsaid("no answer")
    outlet = stage.outlet()
    outlet.put(answer("a"))
    eventually(lambda: stage.sender.tries > 2)
    stage.sender.error = None
    eventually(lambda: stage.sender.lines == ["a"])
    outlet.stop()


def test_an_error_that_nobody_foresaw_ends_nothing(stage):
    stage.sender.error = ZeroDivisionError("oh")
    outlet = stage.outlet()
    outlet.put(answer("a"))
    eventually(lambda: stage.sender.tries > 2)
    stage.sender.error = None
    eventually(lambda: stage.sender.lines == ["a"])
    outlet.stop()
