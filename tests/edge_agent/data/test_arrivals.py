"""What appears in a folder."""

import os

from edge_agent.data.arrivals import Arrivals


def put(path, text="x"):
    path.write_bytes(text.encode())
    return path


def test_a_file_is_there_once_it_stays_as_it_is(tmp_path):
    arrivals = Arrivals(tmp_path)
    file = put(tmp_path / "a.jpg")
    assert arrivals.look() == []
    put(file, "half a photo")
    assert arrivals.look() == []
    assert arrivals.look() == [file]
    assert arrivals.look() == []


def test_one_that_is_written_anew_appears_again_and_one_that_came_back_too(tmp_path):
    arrivals, file = Arrivals(tmp_path), put(tmp_path / "a.jpg")
    assert [arrivals.look(), arrivals.look()] == [[], [file]]
    put(file, "another")
    assert [arrivals.look(), arrivals.look()] == [[], [file]]
    file.unlink()
    arrivals.look()
    put(file, "another")
    assert [arrivals.look(), arrivals.look()] == [[], [file]]


def test_what_lay_there_may_count_as_nothing_new(tmp_path):
    file = put(tmp_path / "a.jpg")
    arrivals = Arrivals(tmp_path, old=False)
    assert [arrivals.look(), arrivals.look()] == [[], []]
    os.utime(file, ns=(1, 1))
    assert [arrivals.look(), arrivals.look()] == [[], [file]]
