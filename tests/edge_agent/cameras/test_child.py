"""The process that watches for a daemon: its job on a pipe, answers with outcomes, its end."""

import io
import json
import os
import queue
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from edge_agent.cameras.child import listen
from edge_agent.config import CameraSection
from protofleet.settings.fields import to_plain
from tests.watching import knowing_bundle, scene

ROOT = Path(__file__).parents[3]


def show(folder, name, picture):
    aside = folder / f".{name}"
    Image.fromarray(np.asarray(picture)).save(aside, "PNG")
    aside.rename(folder / name)


def test_it_says_one_answer_at_a_time_and_leaves_when_its_daemon_does(tmp_path):
    bundle = knowing_bundle(tmp_path / "fleet.pfb")
    folder = tmp_path / "in"
    folder.mkdir()
    camera = CameraSection((f"yard={folder}",), hold=1, motion=0, every=0.1, fleet=True)
    job = {"camera": to_plain(camera), "bundle": str(bundle), "log_format": "text"}
    process = subprocess.Popen(
        [sys.executable, "-m", "edge_agent.cameras.child", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    process.stdin.write(json.dumps(job).encode() + b"\n")
    process.stdin.flush()
    # Pictures come until one is answered: when it listens is its own affair.
    for number in range(240):
        show(folder, f"{number}.png", scene(1))
        if not _readable(process.stdout, 0.5):
            continue
        first, _, line = process.stdout.readline().decode().partition(" ")
        answer = json.loads(line)
        assert (first, answer["camera"], answer["label"]) == ("1", "yard", "a")
        process.stdin.write(b"1 ok\n")
        break
    else:
        raise AssertionError("no answer")
    process.stdin.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""


def _readable(pipe, seconds):
    import select

    return bool(select.select([pipe], [], [], seconds)[0])


def test_each_line_goes_to_who_waits_and_the_end_stops_it():
    outcomes, ends = queue.Queue(), []
    listen(io.BytesIO(b"1 ok\n2 later\n"), outcomes, lambda: ends.append(1))
    assert [outcomes.get_nowait() for _ in range(3)] == ["1 ok", "2 later", ""]
    assert ends == [1]


def test_a_job_that_cannot_be_done_is_one_line(tmp_path):
    job = {"camera": {"sources": ["rtsp://"]}, "bundle": str(tmp_path / "none.pfb")}
    run = subprocess.run(
        [sys.executable, "-m", "edge_agent.cameras.child", str(os.getpid())],
        input=json.dumps(job).encode() + b"\n",
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.count(b"\n") == 1
    assert b"the cameras are not watched" in run.stderr
