"""A lock is held by one process at a time, however it ends; a file is replaced whole or not at
all.
"""

import os
import subprocess
import sys
import threading

import pytest

from protofleet.util.files import Locked, lock, write_whole

HOLD = "import sys, pathlib; from protofleet.util.files import lock; "
HOLD += "f = lock(pathlib.Path(sys.argv[1])); "


def test_the_second_holder_hears_who_the_first_is(tmp_path):
    with lock(tmp_path / "made"), pytest.raises(Locked) as refused:
        lock(tmp_path / "made")
    assert refused.value.holder == str(os.getpid())
    with lock(tmp_path / "made"):
        pass  # free again as soon as the first is closed


def test_a_holder_that_is_killed_holds_nothing(tmp_path):
    words = [sys.executable, "-c", HOLD + "print(); sys.stdout.flush(); input()", str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(Locked) as refused:
            lock(tmp_path)
        assert refused.value.holder == str(other.pid)
        other.kill()
        other.wait()
        with lock(tmp_path) as file:
            file.seek(0)
            assert file.read() == str(os.getpid())  # and not the tail of a longer number


def test_a_directory_that_cannot_be_made_is_the_callers_to_explain(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        lock(tmp_path / "file" / "inside")


def test_a_reader_sees_the_old_or_the_new_and_nothing_between(tmp_path):
    path, ways = tmp_path / "state", [bytes([n]) * 100_000 for n in range(20)]
    write_whole(path, ways[0])
    done = threading.Event()
    halves = []

    def read():
        while not done.is_set():
            content = path.read_bytes()
            if content not in ways:
                halves.append(len(content))

    reader = threading.Thread(target=read)
    reader.start()
    for content in ways:
        write_whole(path, content, lasting=False)
    done.set()
    reader.join()
    assert halves == []
    assert [p.name for p in tmp_path.iterdir()] == ["state"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "state"
    write_whole(path, b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
