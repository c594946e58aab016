"""`edge-agent infer` as part of a pipeline: paths on stdin, a folder that fills."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread

import numpy as np
import pytest
from PIL import Image

from edge_agent.cli.infer_cmd import answers, table
from edge_agent.inference import session
from edge_agent.inference.classifier import Classifier
from edge_agent.inference.sandbox import machine_memory
from export.writer import Wanted, export, write
from protofleet.exchange.archive import BundleError
from tests.bundles import device, digits
from tests.knowing import knowing
from tests.networks import extractor_bundle, pictures

ROOT = Path(__file__).parents[3]
PATIENCE = 60


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "digits"
    write(export(device(), Wanted(by="prototype")), path)
    return path


@pytest.fixture(scope="module")
def due(bundle):
    """The labels of the first samples, from Python."""
    from edge_agent.inference.classifier import Classifier

    return Classifier(bundle).classify(digits().x[:4])[0]


def photo(path, i):
    """Whole or not there: a camera would write it aside too."""
    aside = path.with_name("." + path.name)
    Image.fromarray(digits().x[i][..., 0]).save(aside, "PNG")
    aside.rename(path)
    return path


class Asked:
    """A running `edge-agent infer --json`, its answers as they come."""

    def __init__(self, process):
        self.process, self._lines = process, Queue()
        Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def answer(self):
        return self._lines.get(timeout=PATIENCE)

    def say(self, words):
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()


@contextmanager
def infer(bundle, *words):
    command = [
        sys.executable,
        "-m",
        "edge_agent",
        "infer",
        "--bundle",
        str(bundle),
        "--json",
        *words,
    ]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    # Who runs in the background of a shell ignores Ctrl-C, and so would what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environ
    )
    try:
        yield Asked(process)
    finally:
        process.kill()
        process.wait()


def test_each_path_on_stdin_is_answered_before_the_next_is_asked(bundle, due, tmp_path):
    with infer(bundle, "--stdin") as asked:
        for i, label in enumerate(due):
            path = photo(tmp_path / f"{i}.png", i)
            asked.say(path)
            found = asked.answer()
            assert (found["path"], found["label"]) == (str(path), label)
            assert found["top"][0]["distance"] >= 0


def test_a_path_that_is_no_photo_is_an_answer_too_and_the_end_of_stdin_the_end(
    bundle, due, tmp_path
):
    (tmp_path / "bad.png").write_bytes(b"not a picture")
    with infer(bundle, "--stdin") as asked:
        for path in (tmp_path / "missing.png", tmp_path / "bad.png", tmp_path):
            asked.say(path)
            found = asked.answer()
            assert found["label"] is None
            assert found["error"].startswith(f"{path}: not a readable image")
        asked.say("")
        asked.say(photo(tmp_path / "good.png", 2))
        assert asked.answer()["label"] == due[2]
        asked.process.stdin.close()
        assert asked.process.wait(PATIENCE) == 0
        assert asked.process.stderr.read() == ""


def test_a_watched_folder_is_read_as_it_fills(bundle, due, tmp_path):
    photo(tmp_path / "0.png", 0)
    with infer(bundle, "--watch", str(tmp_path)) as asked:
        assert asked.answer()["label"] == due[0]
        (tmp_path / "notes.txt").write_text("not looked at")
        (tmp_path / "inside").mkdir()
        photo(tmp_path / "inside" / "1.png", 1)
        found = asked.answer()
        assert (found["path"], found["label"]) == (str(tmp_path / "inside" / "1.png"), due[1])
        (tmp_path / "bad.png").write_bytes(b"not a picture")
        assert "not a readable image" in asked.answer()["error"]
        photo(tmp_path / "0.png", 2)  # a camera that writes over its last picture
        found = asked.answer()
        assert (found["path"], found["label"]) == (str(tmp_path / "0.png"), due[2])
        asked.process.send_signal(signal.SIGINT)
        asked.process.wait(PATIENCE)
        assert "Traceback" not in asked.process.stderr.read()


def test_a_photo_that_goes_away_and_comes_back_is_looked_at_again(bundle, due, tmp_path):
    with infer(bundle, "--watch", str(tmp_path)) as asked:
        path = photo(tmp_path / "a.png", 3)
        assert asked.answer()["label"] == due[3]
        path.unlink()
        photo(tmp_path / "b.png", 1)
        assert asked.answer()["path"].endswith("b.png")
        photo(path, 0)
        assert asked.answer()["label"] == due[0]


@pytest.mark.parametrize("words", [(), ("x.png", "--stdin"), ("--stdin", "--watch", ".")])
def test_one_source_of_photos_is_due(bundle, words):
    with infer(bundle, *words) as asked:
        assert asked.process.wait(PATIENCE) == 2
        assert asked.process.stderr.read().count("\n") == 1


def test_an_extractor_that_knows_no_class_says_what_to_do(call, tmp_path):
    extractor_bundle(tmp_path / "x.pfb")
    photo(tmp_path / "0.png", 0)
    done = call("infer", "--bundle", "x.pfb", "0.png")
    assert done.returncode == 1
    assert done.stderr == (
        "error: x.pfb is an extractor: it sees, but knows no class yet; edge-agent enroll --bundle "
        "x.pfb --label NAME PHOTOS, or --follow a fleet that has classes (no-class)\n"
    )


def test_until_a_followed_fleet_has_classes_there_is_a_reason_for_each_photo(tmp_path):
    classifier = Classifier(extractor_bundle(tmp_path / "x.pfb"))
    photo(tmp_path / "0.png", 0)
    (row,) = answers(classifier, [tmp_path / "0.png"], 1)
    assert (row["label"], row["error"]) == (None, "no class is known yet")


def test_an_answer_says_how_sure_it_is_and_what_is_unknown(tmp_path):
    classifier = Classifier(extractor_bundle(tmp_path / "x.pfb"), unknown=True)
    x = np.concatenate([pictures(seed, 40) for seed in (1, 2)])
    lineage = classifier.bundle.manifest.lineages[0]
    classifier.use(knowing(lineage, "ab", [(classifier.embed(x), np.arange(80) // 40)]), "")
    photos = np.stack([x[1], pictures(9, 1)[0]])  # the first of all is among the false alarms
    files = [tmp_path / "0.png", tmp_path / "1.png"]
    for file, pixels in zip(files, photos, strict=True):
        Image.fromarray(pixels).save(file)
    due = classifier.look(photos)
    rows = list(answers(classifier, files, 2))
    for row, sure in zip(rows, due.probabilities, strict=True):
        assert [one["probability"] for one in row["top"]] == sorted(sure, reverse=True)
        assert row["probability"] == sure.max()
        assert "distance" not in row["top"][0]
    assert [(row["label"], row["unknown"]) for row in rows] == [("a", False), (None, True)]
    first, second = table(rows).splitlines()
    share = f"{100 * due.probabilities[0].max():.1f} %"
    assert first.startswith(f"{files[0]}  a ({share})  b (")
    assert second.startswith(f"{files[1]}  unknown, nearest ")


def test_names_of_classes_move_no_cursor():
    """They come over the channel."""
    evil = {"label": "\x1b[2Jowl\nsecond line", "score": 1.0}
    lines = table([{"path": "a.png", "top": [evil]}, {"path": "\x1b[2J", "error": "\r"}])
    assert "\x1b" not in lines
    assert len(lines.splitlines()) == 2


def test_a_photo_that_a_bundle_stumbles_over_is_an_error_and_the_others_are_answered(
    bundle, due, tmp_path, monkeypatch
):
    photos = [photo(tmp_path / f"{i}.png", i) for i in range(4)]
    classifier = Classifier(bundle)
    run = session.Engine._run

    def stumbles(engine, images, loaded):
        if any(np.array_equal(image, digits().x[2]) for image in images):
            raise BundleError(f"the graph cannot be run: {session.NO_MEMORY}")
        return run(engine, images, loaded)

    monkeypatch.setattr(session.Engine, "_run", stumbles)
    rows = list(answers(classifier, photos, 1))
    assert [row["label"] for row in rows] == [*due[:2], None, due[3]]
    assert "not enough memory" in rows[2]["error"]


def test_a_process_may_take_so_much_memory_and_with_others_bundles_not_all_of_it():
    code = """
import resource
from edge_agent.cli.infer_cmd import bound
for most, others in ((None, False), (0, True), (None, True), (300, True)):
    bound(most, others=others)
    print(resource.getrlimit(resource.RLIMIT_DATA)[0])
"""
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environ, check=True)
    before, all_of_it, usual, few = map(int, run.stdout.split())
    assert before == all_of_it
    assert (usual, few) == (int(0.75 * machine_memory()), 300 << 20)


def test_a_graph_that_goes_on_and_on_is_an_error_of_its_photo(bundle, tmp_path, monkeypatch):
    path, classifier = photo(tmp_path / "one.png", 0), Classifier(bundle)
    monkeypatch.setattr(session, "PATIENCE", 0.0)
    monkeypatch.setattr(session, "Timer", AtOnce)
    (row,) = answers(classifier, [path], 1)
    assert "more than 0 s" in row["error"]


class AtOnce:
    """A timer that does not wait."""

    def __init__(self, seconds, function, arguments):
        self.start = self.cancel = lambda: function(*arguments)
