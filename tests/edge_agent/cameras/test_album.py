"""A folder that a camera fills."""

import shutil
import threading
import time

import numpy as np
import pytest
from PIL import Image

from edge_agent.cameras.album import FolderPlayer
from edge_agent.cameras.player import SourceLost


def put(folder, name, colour):
    aside = folder / f".{name}"
    Image.fromarray(np.full((40, 50, 3), colour, np.uint8)).save(aside, "PNG")
    aside.rename(folder / name)


def upcoming(player):
    """The next picture; a look that finds none is no answer."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        frame = player.next()
        if frame is not None:
            return frame
    raise AssertionError("no picture")


def test_what_lay_there_is_no_frame_and_what_comes_is(tmp_path):
    put(tmp_path, "old.png", 10)
    player = FolderPlayer(tmp_path)
    assert player.next() is None
    put(tmp_path, "new.png", 200)
    frame = upcoming(player)
    assert (frame.image.shape, int(frame.image[0, 0, 0])) == ((40, 50, 3), 200)
    assert player.next() is None


def test_of_several_the_newest_counts_and_one_that_is_none_hides_no_other(tmp_path):
    player = FolderPlayer(tmp_path)
    for n in range(5):
        put(tmp_path, f"{n}.png", 40 * n)
        time.sleep(0.01)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    assert int(upcoming(player).image[0, 0, 0]) == 160


def test_a_folder_that_is_removed_is_a_camera_that_is_lost(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    player = FolderPlayer(folder)
    shutil.rmtree(folder)
    with pytest.raises(SourceLost):
        upcoming(player)


def test_who_waits_can_be_interrupted(tmp_path):
    player = FolderPlayer(tmp_path)
    threading.Timer(0.05, player.interrupt).start()
    began = time.monotonic()
    assert player.next() is None
    assert player.next() is None
    assert time.monotonic() - began < 30
