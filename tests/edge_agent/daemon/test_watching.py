"""The process that watches cameras, as its daemon sees it."""

import io
import itertools
import json
import os
import threading
import time
from dataclasses import replace

import pytest

from edge_agent.config import CameraSection
from edge_agent.daemon.watching import FIRST_WAIT, CameraChild
from protofleet import registry
from protofleet.contract import Contract, Input
from protofleet.errors import LinkBusy
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.link.events import Ticket
from tests.edge_agent.cameras.test_child import show
from tests.edge_agent.fakes import config, log
from tests.edge_agent.scripted import Device, Scripted, until
from tests.linking import eventually
from tests.watching import knowing_bundle, scene

ANSWER = json.dumps({"camera": "door", "region": "bin", "label": "a"})


class PipedProcess:
    """What a test says in a process's place."""

    def __init__(self):
        self.stdin, self.code, self.killed = _Kept(), None, False
        read, self._write = os.pipe()
        self.stdout = os.fdopen(read, "rb")

    def say(self, words):
        os.write(self._write, words.encode())

    def end(self, code=1):
        self.code = code
        os.close(self._write)

    def poll(self):
        return self.code

    def kill(self):
        self.killed = True

    def wait(self, timeout=None):
        return 0


class _Kept(io.BytesIO):
    """Remembers what was written when it is closed."""

    closing = False

    def close(self):
        self.closing = True


class Stage:
    def __init__(self, folder, camera=None, bundle=True):
        self.now, self.processes, self.published = 0.0, [], []
        self.full, self.refused = False, None
        self.waking = threading.Event()
        words, self.lines = log()
        if bundle:
            (folder / "fleet.pfb").write_bytes(b"")
        settings = replace(
            config(folder), camera=camera or CameraSection(sources=("rtsp://me:secret@cam/s",))
        )
        self.child = CameraChild(
            settings, self.publish, self.waking.set, words, lambda: self.now, self.start
        )

    def start(self, command):
        assert "secret" not in " ".join(command)
        self.processes.append(PipedProcess())
        return self.processes[-1]

    def publish(self, place, answer):
        if self.full:
            raise LinkBusy("full")
        ticket = Ticket(threading.Condition())
        self.published.append((place, answer, ticket))
        return ticket

    def hear(self, words, connected=True):
        """A turn of the loop after the process said this."""
        self.waking.clear()
        self.processes[-1].say(words)
        eventually(self.waking.is_set)
        self.child.look(connected=connected)

    @property
    def outcomes(self):
        return self.processes[-1].stdin.getvalue().decode().splitlines()[1:]


@pytest.fixture
def stage(tmp_path):
    one = Stage(tmp_path)
    one.child.look(connected=True)
    return one


def test_where_no_camera_is_named_there_is_no_process(tmp_path):
    stage = Stage(tmp_path, CameraSection())
    stage.child.look(connected=True)
    assert not stage.processes
    assert stage.child.due() == float("inf")
    stage.child.stop()


def test_without_a_bundle_it_waits_and_says_so_once(tmp_path):
    stage = Stage(tmp_path, bundle=False)
    for stage.now in (0.0, 2.0, 4.0):
        stage.child.look(connected=True)
    assert not stage.processes
    assert len(stage.lines.getvalue().splitlines()) == 1
    (tmp_path / "fleet.pfb").write_bytes(b"")
    stage.now = 6.0
    stage.child.look(connected=True)
    assert len(stage.processes) == 1


def test_its_job_comes_on_its_input(stage):
    job = json.loads(stage.processes[0].stdin.getvalue())
    assert job["camera"]["sources"] == ["rtsp://me:secret@cam/s"]
    assert job["bundle"].endswith("fleet.pfb")


def test_an_answer_is_published_and_its_outcome_said_once_the_broker_has_it(stage):
    stage.hear(f"1 {ANSWER}\n")
    ((place, answer, ticket),) = stage.published
    assert (place, answer.decode()) == ("door.bin", ANSWER)
    assert stage.outcomes == []
    ticket.settle(None)
    stage.child.look(connected=True)
    stage.hear(f"2 {ANSWER}\n")
    stage.published[1][2].settle("not authorized")
    stage.child.look(connected=True)
    assert stage.outcomes == ["1 ok", "2 no"]


def test_without_a_connection_or_room_it_is_for_later(stage):
    stage.hear(f"1 {ANSWER}\n", connected=False)
    stage.full = True
    stage.hear(f"2 {ANSWER}\n")
    assert stage.outcomes == ["1 later", "2 later"]
    assert not stage.published


def test_one_that_ends_is_started_again_later_and_later(stage):
    waits = []
    for _ in range(8):
        process = stage.processes[-1]
        stage.waking.clear()
        process.end()
        eventually(stage.waking.is_set)
        stage.child.look(connected=True)
        waits.append(stage.child.due() - stage.now)
        stage.now += waits[-1]
        stage.child.look(connected=True)
        assert stage.processes[-1] is not process
    assert waits[:3] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]
    assert waits[-1] == 60.0


@pytest.mark.parametrize(
    "words",
    [
        "hello\n",
        f"x {ANSWER}\n",
        "1 {}\n",
        '1 {"camera": "a/b", "region": ""}\n',
        '1 {"camera": 5, "region": ""}\n',
        "1 " + "x" * 9000,
    ],
)
def test_one_that_says_something_else_is_ended(stage, words):
    stage.hear(words)
    assert stage.processes[0].killed
    assert not stage.published


def test_when_the_daemon_leaves_it_may_leave_in_good_order(stage):
    process = stage.processes[0]
    stage.child.stop()
    assert process.stdin.closing
    assert not process.killed
    process.end(0)


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_a_daemon_says_what_its_cameras_see_on_its_own_topic(tmp_path):
    bundle, folder = knowing_bundle(tmp_path / "x.pfb"), tmp_path / "in"
    folder.mkdir()
    for name in "ab":
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(4):
            show(tmp_path / "photos" / name, f"{number}.png", scene(1))
    contract = Contract("f", "r", 0, ("a", "b"), Input("image", (32, 32, 3)), 4)
    with running_broker(tmp_path / "broker", prefer="mosquitto") as broker:
        port = broker.address.port
        coordinator = Scripted(port, contract, "fedproto", registry.load("fedproto").hyper())
        coordinator.publish_state()
        settings = {
            "sources": f"yard={folder}",
            "bundle": bundle,
            "fleet": "yes",
            "hold": 1,
            "motion": 0,
            "every": 0.1,
        }
        words = [w for name, text in settings.items() for w in ("--set", f"camera.{name}={text}")]
        device = Device(
            tmp_path, "cam", "--data", str(tmp_path / "photos"), *words, port=port, fleet="f"
        )
        topic, numbers = coordinator.topics.sees("cam", "yard"), itertools.count()

        def answered():
            show(folder, f"{next(numbers)}.png", scene(1))
            time.sleep(0.3)
            return [payload for at, payload in list(coordinator.heard) if at == topic]

        (payload, *_) = until(answered, "an answer")
        assert json.loads(payload)["label"] == "a"
        device.stop()
        coordinator.stop()
