"""The queue holds its bounds, survives whatever ends a process, and is nobody else's to read."""

import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from edge_agent.config import RecentSection
from edge_agent.recent.queue import (
    ORPHAN,
    AnsweredPicture,
    RecentBounds,
    RecentQueue,
    agree,
    agreed,
    bounds_file,
)
from protofleet.errors import DataError
from tests.edge_agent.recent.seeing import LINEAGE, WIDTH, sighting


def queue(tmp_path, **bounds):
    return RecentQueue(tmp_path / "x.pfb", RecentBounds(seconds=1e12, **bounds))


def filled(tmp_path, count, **bounds):
    there = queue(tmp_path, **bounds)
    for n in range(count):
        there.add(sighting(n))
    return there


def ages(there):
    return [row.at - 1000 for row in there.pictures()]


def test_a_picture_is_there_once_with_what_was_answered(tmp_path):
    there = filled(tmp_path, 2)
    assert there.add(sighting(0, at=2000)) is False
    first, second = there.pictures("waiting")
    assert (first.answer, first.probability, first.unknown) == ("mug", 0.4, False)
    assert (first.source, first.surely) == ("door", False)
    assert there.picture(first.key).read_bytes() == sighting(0).picture
    features = there.features(LINEAGE, WIDTH, [first.key, second.key])
    assert features[second.key].tolist() == [1, 1, 1, 1]
    # of another extractor, or another width, it has none
    assert there.features("extractor:b", WIDTH, [first.key]) == {}
    assert there.features(LINEAGE, WIDTH + 1, [first.key]) == {}


def test_what_was_named_goes_first_then_what_was_sure_then_the_oldest(tmp_path):
    there = queue(tmp_path, number=4)
    there.add(sighting(0))
    there.add(sighting(1, probability=0.99))
    there.add(sighting(2))
    there.add(sighting(3))
    there.begin([there.pictures()[3].key], "", "", 0.0)
    there.add(sighting(4))
    assert ages(there) == [0, 1, 2, 4]
    there.add(sighting(5))
    assert ages(there) == [0, 2, 4, 5]
    there.add(sighting(6))
    assert ages(there) == [2, 4, 5, 6]
    assert len(list((there.folder / "pictures").iterdir())) == 4


def test_bytes_and_age_are_bounds_too(tmp_path):
    size = len(sighting(0).picture)
    assert len(filled(tmp_path, 6, bytes=4 * size).pictures()) in (3, 4)
    old = RecentQueue(tmp_path / "x.pfb", RecentBounds(seconds=60))
    old.add(sighting(9, at=time.time()))
    assert len(old.pictures()) == 1
    with pytest.raises(DataError, match="at most"):
        old.add(AnsweredPicture(b"x" * (2 << 20), "", None, True, 0, "", "a", np.zeros(2)))


def test_nobody_else_may_read_it_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        there = filled(tmp_path, 1)
    finally:
        os.umask(before)
    for path in (there.folder, *there.folder.rglob("*")):
        due = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == due, path


def test_whoever_is_killed_leaves_a_queue_that_reads(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.edge_agent.recent.test_queue import filled\n"
        "print('begun', flush=True); filled(Path(sys.argv[1]), 10_000)\n"
    )
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
        child.stdout.readline()
        there = queue(tmp_path)
        deadline = time.monotonic() + 60
        while not there.pictures() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait(20)
        child.stdout.close()
        rows = there.pictures()
        assert rows
        assert all(there.picture(row.key).exists() for row in rows)
        # what it was writing when it ended is no picture, and goes when it is old
        files = set((there.folder / "pictures").iterdir())
        assert len(files) <= len(rows) + 2
        there.tidy(time.time() + 2 * ORPHAN)
        assert len(list((there.folder / "pictures").iterdir())) == len(there.pictures())


def test_a_number_means_what_was_listed_even_if_others_come_and_go(tmp_path):
    there = filled(tmp_path, 5)
    a, b, _, d, e = (row.key for row in there.pictures())
    there.list_clusters([[a, b], [d, e]])
    there.forget([d])
    there.add(sighting(7))
    assert (there.cluster(1), there.cluster(2)) == ([a, b], [e])
    assert there.cluster(0) == there.cluster(3) == []


def test_its_stamp_is_another_one_when_something_changed_and_not_when_it_was_read(tmp_path):
    there = queue(tmp_path)
    assert there.stamp == 0
    there.add(sighting(0))
    before = there.stamp
    assert there.pictures()
    assert there.last_action() is None
    assert there.stamp == before
    there.begin([there.pictures()[0].key], "", "", 0.0)
    assert there.stamp != before


def test_a_file_that_is_no_queue_is_one_line(tmp_path):
    there = filled(tmp_path, 1)
    (there.folder / "queue.db").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(DataError, match=r"queue\.db"):
        there.pictures()


def test_bounds_that_a_device_has_hold_for_who_knows_no_settings(tmp_path):
    agree(tmp_path / "x.pfb", RecentBounds.of(RecentSection(pictures=2, days=1e9)))
    assert not (tmp_path / "x.pfb.recent").exists()
    there = RecentQueue(tmp_path / "x.pfb")
    for n in range(4):
        there.add(sighting(n))
    assert ages(there) == [2, 3]
    for text in ("", "[]", '{"number": "x"}'):
        bounds_file(tmp_path / "x.pfb").write_text(text)
        assert agreed(tmp_path / "x.pfb") == RecentBounds()
