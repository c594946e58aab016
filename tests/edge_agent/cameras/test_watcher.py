"""From frames to answers, with feeds and a classifier of the test's."""

import io
import json
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from edge_agent.cameras.feeds import CameraFeed
from edge_agent.cameras.frames import FRESH, Frame
from edge_agent.cameras.origins import Origin
from edge_agent.cameras.regions import WHOLE, Region
from edge_agent.cameras.scenes import Scene
from edge_agent.cameras.watcher import Watcher, WatcherDeps
from edge_agent.inference.classifier import Classifier
from protofleet.errors import DataError
from protofleet.util.logs import Log
from tests.networks import extractor_bundle
from tests.watching import bank_of, scene


class HandFeed:
    """A camera whose frames the test hands in."""

    def __init__(self, name="door"):
        self.origin, self.newest, self.lost = Origin(name, "rtsp", "", ""), None, False

    def take(self):
        frame, self.newest = self.newest, None
        return frame

    def start(self): ...

    def stop(self): ...


class Stage:
    """A watcher of one camera whose clock stands unless it is moved."""

    def __init__(self, classifier, *regions, hold=2, motion=0.01, **deps):
        self.said, self.log, self.now, self.remembered = [], io.StringIO(), 100.0, []
        self.looking = 0.0  # seconds that a look takes
        self.feed = HandFeed()
        scenes = [Scene(region, motion, 3, hold) for region in regions or (WHOLE,)]
        self.watcher = Watcher(
            SimpleNamespace(in_use=None) if classifier is None else classifier,
            [self.feed],
            {"door": scenes},
            WatcherDeps(
                self.said.append,
                Log(self.log),
                SimpleNamespace(add=lambda *words: self.remembered.append(words)),
                clock=self.tick,
                wall=lambda: 1e9 + self.now,
                **deps,
            ),
            threading.Event(),
        )

    def tick(self):
        now, self.now = self.now, self.now + self.looking
        return now

    def show(self, picture, frames=1, age=0.1):
        for _ in range(frames):
            self.feed.newest = Frame(picture, self.now - age)
            self.watcher.turn(self.feed)
            self.now += 0.5

    @property
    def labels(self):
        return [(answer.kind, answer.region, answer.label) for answer in self.said]

    @property
    def looks(self):
        return self.watcher.counts.looks


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return extractor_bundle(tmp_path_factory.mktemp("bundles") / "x.pfb")


@pytest.fixture
def classifier(bundle):
    one = Classifier(bundle)
    teach(one, "ab")
    return one


def teach(classifier, names):
    classifier.use(bank_of(classifier, names), names)


def beside(left, right):
    return np.concatenate([scene(left), scene(right)], 1)


def test_an_answer_that_holds_is_said_once_and_a_still_scene_costs_nothing_more(classifier):
    stage = Stage(classifier)
    stage.show(scene(1), 50)
    assert stage.labels == [("answer", "", "a")]
    assert stage.looks == 2
    stage.show(scene(2), 50)
    assert stage.labels[1:] == [("answer", "", "b")]
    assert stage.looks == 4
    answer = stage.said[0]
    assert answer.age == pytest.approx(0.1)
    assert answer.at == pytest.approx(1e9 + 100.4)
    assert answer.probability > 0.9
    assert answer.state == "ab"


def test_each_region_has_an_answer_of_its_own_and_they_share_a_call(classifier):
    halves = Region("left", 0, 0, 0.5, 1), Region("right", 0.5, 0, 1, 1)
    stage = Stage(classifier, *halves)
    stage.show(beside(1, 2), 5)
    assert stage.labels == [("answer", "left", "a"), ("answer", "right", "b")]
    assert stage.looks == 2
    stage.show(beside(1, 1), 5)
    assert stage.labels[2:] == [("answer", "right", "a")]


def test_no_frame_older_than_a_second_is_answered(classifier):
    stage = Stage(classifier, each_frame=True, motion=0)
    stage.show(scene(1), 10, age=FRESH + 0.01)
    assert not stage.said
    assert stage.watcher.counts.late == 10
    stage.looking = 1.2  # a device that is too slow for its bundle
    stage.show(scene(1), 10)
    assert not stage.said
    assert stage.watcher.counts.late == 20
    (line,) = stage.log.getvalue().splitlines()
    assert "older than 1 s" in line
    stage.looking = 0.0
    stage.show(scene(1), 2)
    assert [answer.kind for answer in stage.said] == ["frame", "frame", "answer"]
    assert stage.watcher.counts.oldest <= FRESH


def test_a_camera_that_is_lost_is_said_once_and_what_it_shows_then_is_said_again(classifier):
    stage = Stage(classifier)
    stage.show(scene(1), 5)
    stage.feed.lost = True
    for _ in range(3):
        stage.watcher.turn(stage.feed)
    stage.feed.lost = False
    stage.show(scene(1), 5)
    assert stage.labels == [("answer", "", "a"), ("lost", "", None), ("answer", "", "a")]


def test_other_classes_are_looked_for_even_if_nothing_moves(classifier):
    stage = Stage(classifier)
    stage.show(scene(1), 10)
    teach(classifier, "xb")
    stage.show(scene(1), 10)
    assert stage.labels == [("answer", "", "a"), ("answer", "", "x")]
    assert stage.looks == 4


def test_without_a_class_nothing_is_answered_and_one_line_says_so(bundle):
    stage = Stage(Classifier(bundle))
    stage.show(scene(1), 5)
    assert not stage.said
    assert stage.log.getvalue().count("no class is known yet") == 1
    assert len(stage.remembered) == 1
    teach(stage.watcher.classifier, "ab")
    stage.show(scene(1), 5)
    assert stage.labels == [("answer", "", "a")]


def test_what_is_like_no_class_is_said_and_put_where_a_person_may_be_asked(classifier):
    stage = Stage(classifier)
    stage.show(scene(9), 10)
    (answer,) = stage.said
    assert (answer.label, answer.unknown) == (None, True)
    assert answer.nearest in ("a", "b")
    ((now, look, row, view),) = stage.remembered
    assert (row, view.source) == (0, "door")
    assert Image.open(io.BytesIO(view.picture())).size == (128, 128)
    assert now.loaded.labels == ["a", "b"]
    assert look.features.shape[0] == 1


def test_what_cannot_be_remembered_is_answered_all_the_same(classifier):
    stage = Stage(classifier)

    def full(*words):
        raise DataError("disk full")

    stage.watcher.deps.remember.add = full
    stage.show(scene(1), 5)
    stage.show(scene(2), 5)
    assert len(stage.said) == 2
    assert stage.log.getvalue().count("disk full") == 1


def test_it_runs_until_it_is_stopped(classifier):
    stage = Stage(classifier)
    turns = []
    deps = WatcherDeps(stage.said.append, Log(stage.log), refresh=turns.append)
    watcher = Watcher(classifier, [stage.feed], stage.watcher.scenes, deps, threading.Event())
    timer = threading.Timer(1.2, watcher.stop)
    timer.start()
    watcher.run()
    assert turns


def test_an_answer_is_a_line_that_a_program_reads(classifier):
    stage = Stage(classifier)
    stage.show(scene(1), 2)
    assert json.loads(stage.said[0].line())["camera"] == "door"


def test_a_feed_is_what_a_watcher_takes_frames_from():
    assert {"take", "start", "stop", "lost"} <= set(dir(CameraFeed))
