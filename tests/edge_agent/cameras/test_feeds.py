"""One frame a camera, the newest, whatever becomes of the camera."""

import io
import queue
import threading
import time

import numpy as np
import pytest

from edge_agent.cameras.feeds import CameraFeed, FeedTerms
from edge_agent.cameras.frames import Frame
from edge_agent.cameras.origins import Origin
from edge_agent.cameras.player import SourceLost
from protofleet.util.logs import Log
from tests.linking import eventually

DOOR = Origin("door", "rtsp", "rtsp://cam/s", "rtsp://me:secret@cam/s")


class ScriptedPlayer:
    """Hands over what the test puts in: frames, or errors."""

    def __init__(self):
        self.script, self.asked, self.closed = queue.Queue(), 0, 0

    def next(self):
        self.asked += 1
        step = self.script.get(timeout=30)
        if isinstance(step, Exception):
            raise step
        return step

    def interrupt(self):
        self.script.put(SourceLost("interrupted"))

    def close(self):
        self.closed += 1


def frame(number):
    return Frame(np.full((2, 2, 3), number, np.uint8), time.monotonic())


@pytest.fixture
def stage():
    player, lines, bell = ScriptedPlayer(), io.StringIO(), threading.Event()
    terms = FeedTerms(0.0, lambda origin: player, lambda attempt: 0.01, Log(lines))
    feed = CameraFeed(DOOR, terms, bell)
    feed.start()
    yield feed, player, lines, bell
    feed.stop()
    assert not feed._thread.is_alive()


def test_a_frame_that_nobody_takes_gives_way_to_the_next(stage):
    feed, player, _, bell = stage
    for number in range(3):
        player.script.put(frame(number))
    eventually(lambda: feed.arrived == 3)
    assert bell.is_set()
    assert feed.take().image[0, 0, 0] == 2
    assert feed.take() is None


def test_who_takes_at_once_gets_each(stage):
    feed, player, _, _ = stage
    for number in range(5):
        player.script.put(frame(number))
        taken = []
        eventually(lambda taken=taken: taken.append(feed.take()) or taken[-1] is not None)
        assert taken[-1].image[0, 0, 0] == number


def test_a_loss_is_said_once_and_the_return_once(stage):
    feed, player, lines, _ = stage
    player.script.put(frame(1))
    eventually(lambda: feed.arrived == 1)
    for _ in range(4):
        player.script.put(SourceLost("the stream ended"))
    eventually(lambda: player.closed == 4)
    assert feed.lost
    assert feed.take() is None  # what it showed before is not of now
    player.script.put(frame(2))
    eventually(lambda: feed.arrived == 2)
    assert not feed.lost
    first, second = lines.getvalue().splitlines()
    assert "camera door: the stream ended; trying on" in first
    assert "there again" in second
    assert "secret" not in lines.getvalue()


def test_a_source_with_nothing_new_is_there_all_the_same(stage):
    feed, player, _, _ = stage
    player.script.put(SourceLost("no folder"))
    eventually(lambda: feed.lost)
    player.script.put(None)
    eventually(lambda: not feed.lost)


def test_an_error_that_nobody_foresaw_is_a_loss_like_any_other(stage):
    feed, player, lines, _ = stage
    player.script.put(ZeroDivisionError("oh"))
    player.script.put(frame(1))
    eventually(lambda: feed.arrived == 1)
    assert "ZeroDivisionError" in lines.getvalue()


def test_no_more_is_asked_than_so_often():
    player = ScriptedPlayer()
    feed = CameraFeed(
        DOOR,
        FeedTerms(60.0, lambda o: player, lambda a: 0.01, Log(io.StringIO())),
        threading.Event(),
    )
    feed.start()
    for _ in range(3):
        player.script.put(frame(1))
    eventually(lambda: feed.take() is not None)
    time.sleep(0.2)
    assert player.asked == 1
    feed.stop()
