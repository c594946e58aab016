"""A lock is held by one process at a time, however it ends; a file is replaced whole or not at
all.
"""

import os
import subprocess
import sys
import threading

import pytest

from protofleet.util.files import (
    OWN_FILE,
    Locked,
    exposed,
    free,
    lock,
    new_file,
    own_database,
    own_file,
    own_folder,
    write_whole,
)

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


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.fixture
def open_handed():
    """A process whose files anybody may read and write, unless it sees to it itself."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_handed")
def test_what_is_our_own_is_nobody_elses(tmp_path):
    folder = own_folder(tmp_path / "deep" / "own")
    assert mode(tmp_path / "deep") == 0o700
    with lock(tmp_path / "locked"):
        assert mode(tmp_path / "locked") == 0o700
        assert mode(tmp_path / "locked" / "lock") == 0o600
    with new_file(folder / "new") as file:
        file.write(b"x")
    write_whole(folder / "whole", b"x", mode=OWN_FILE)
    write_whole(folder / "shared", b"x")
    own_file(folder / "made")
    assert (mode(folder), mode(folder / "shared")) == (0o700, 0o666)
    assert {mode(folder / name) for name in ("new", "whole", "made")} == {0o600}


def test_what_others_could_read_is_closed_and_keeps_what_is_in_it(tmp_path):
    names = ("j.db", "j.db-wal", "j.db-shm", ".w.new")
    for name in names:
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(0o644)
    own_database(tmp_path / "j.db")
    assert [mode(tmp_path / name) for name in names] == [0o600, 0o600, 0o600, 0o644]
    assert (tmp_path / "j.db").read_text() == "x"
    write_whole(tmp_path / "w", b"y", mode=OWN_FILE)  # over what a crash left
    assert mode(tmp_path / "w") == 0o600


def test_a_file_made_anew_follows_no_link(tmp_path):
    (tmp_path / "theirs").write_text("before")
    (tmp_path / "ours").symlink_to(tmp_path / "theirs")
    with new_file(tmp_path / "ours") as file:
        file.write(b"secret")
    assert (tmp_path / "theirs").read_text() == "before"


def test_a_directory_that_is_there_stays_as_it_is_and_its_owner_hears_of_it(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)
    assert mode(own_folder(folder)) == 0o755
    assert "is open to other users of this machine (mode 0755)" in exposed(folder)
    folder.chmod(0o700)
    assert exposed(folder) == ""


def test_whether_it_is_held_can_be_asked_without_holding_it(tmp_path):
    assert free(tmp_path)  # nobody ever held it
    with lock(tmp_path):
        assert not free(tmp_path)
    assert free(tmp_path)
    with lock(tmp_path):
        pass
