"""`edge-agent watch` as a person calls it: a stream, a folder, a webhook, settings of a file."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from edge_agent.cli.watch_cmd import seconds_of
from protofleet.errors import UsageError
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.link.link import Arrival
from protofleet.mqtt.topics import Topics
from tests.edge_agent.cameras.test_child import show
from tests.linking import connect, eventually, link_to
from tests.networks import extractor_bundle
from tests.streaming import camera, steady
from tests.watching import knowing_bundle, scene, state_of, teach

ROOT = Path(__file__).parents[3]


@pytest.fixture
def bundle(tmp_path):
    return knowing_bundle(tmp_path / "x.pfb")


@pytest.fixture
def watch(tmp_path):
    """A running `edge-agent watch`, and its answers as they come."""
    processes = []

    def run(*words):
        process = subprocess.Popen(
            [sys.executable, "-m", "edge_agent", "watch", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def answer(process):
    timer = threading.Timer(60, process.kill)  # one that says nothing has failed
    timer.start()
    line = process.stdout.readline()
    timer.cancel()
    assert line, process.stderr.read()
    return json.loads(line)


def test_a_camera_is_followed_through_its_answers_a_cut_and_other_classes(bundle, watch):
    pytest.importorskip("av")
    shown = [scene(1)]
    with camera(steady(lambda: shown[0])) as cam:
        process = watch("--bundle", bundle, f"door={cam.url}", "--every", "50ms", "--hold", 2)
        first = answer(process)
        assert (first["camera"], first["kind"], first["label"]) == ("door", "answer", "a")
        assert first["age"] < 1
        shown[0] = scene(2)
        assert answer(process)["label"] == "b"
        cam.cut()
        assert answer(process)["kind"] == "lost"
        assert answer(process)["label"] == "b"
        assert cam.viewers == 2
        teach(bundle, "xy")
        assert answer(process)["label"] == "y"
        process.send_signal(signal.SIGTERM)
        words = process.communicate(timeout=60)[1].splitlines()
        assert process.returncode == 0
        assert [line.split(maxsplit=2)[2].split(";")[0].split(" after")[0] for line in words] == [
            "camera door: the stream broke off",
            "camera door is there again",
        ]


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_classes_come_from_the_fleets_channel_and_answers_go_to_a_broker(tmp_path, watch):
    extractor_bundle(tmp_path / "x.pfb")
    folder, topics = tmp_path / "in", Topics("f")
    folder.mkdir()
    with running_broker(tmp_path / "broker", prefer="mosquitto") as broker:
        url, link = str(broker.address), link_to(broker.address, "coordinator")
        link.subscribe([("home/#", 1)])
        connect(link)
        link.publish(topics.proto("stable"), state_of(tmp_path / "x.pfb"), retain=True)
        words = ["--follow", url, "--mqtt", url, "--topic", "home", "--hold", 1, "--motion", 0]
        process = watch("--bundle", "x.pfb", f"yard={folder}", *words)
        arrivals, numbers = [], itertools.count()

        def tried():
            show(folder, f"{next(numbers)}.png", scene(1))
            arrivals.extend(e for e in link.poll(0) if isinstance(e, Arrival))
            return bool(arrivals)

        _patiently(tried)
        link.stop()
    assert arrivals[0].topic == "home/yard"
    assert json.loads(arrivals[0].payload) == answer(process)
    assert json.loads(arrivals[0].payload)["label"] == "a"


def test_a_folder_is_a_camera_and_a_webhook_hears_of_it_once_it_listens(bundle, watch, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    posted = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words): ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    port = server.server_address[1]
    (tmp_path / "agent.toml").write_text(
        f'[camera]\nsources = ["yard=in"]\nbundle = "{bundle.name}"\nhold = 1\nevery = 0.1\n'
        f'regions = ["left=0,0,0.5,1"]\nwebhook = "http://127.0.0.1:{port}/hook"\n'
    )
    process = watch()
    lines = []
    threading.Thread(target=lambda: lines.append(answer(process)), daemon=True).start()
    number = 0

    def tried():
        nonlocal number
        number += 1
        show(folder, f"{number}.png", scene(1))
        return bool(lines)

    _patiently(tried)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    eventually(lambda: bool(posted))
    server.shutdown()
    server.server_close()
    assert posted[0] == lines[0]
    assert (posted[0]["camera"], posted[0]["region"], posted[0]["label"]) == ("yard", "left", "a")


def _patiently(holds):
    """A picture twice a second, until the command is there and has seen one."""
    for _ in range(120):
        if holds():
            return
        threading.Event().wait(0.5)
    raise AssertionError("no answer")


@pytest.mark.parametrize(
    ("words", "due"),
    [
        ((), "no camera is named"),
        (("ftp://cam/s",), "no scheme of a camera's"),
        (("in/", "--every", "1h"), "no time"),
        (("in/", "--every", "1s", "--fps", "2"), "one of --every and --fps"),
        (("in/", "--region", "door=1,2"), "four numbers"),
        (("in/", "--topic", "a/#", "--mqtt", "mqtt://127.0.0.1:1"), "topic"),
        (("in/", "--webhook", "file:///x"), "webhook"),
    ],
)
def test_what_cannot_be_is_one_line(call, bundle, tmp_path, words, due):
    (tmp_path / "in").mkdir()
    done = call("watch", "--bundle", bundle, *words)
    assert done.returncode == 2
    assert due in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_time_is_read_as_people_write_it():
    rows = {"0.5s": 0.5, "500ms": 0.5, "2m": 120.0, "1": 1.0, ".5 s": 0.5}
    assert {text: seconds_of(text) for text in rows} == rows
    for text in ("", "s", "1h", "-1s", "1,5s"):
        with pytest.raises(UsageError):
            seconds_of(text)
