"""Samples that come and go are noticed, by what the file system says of folders."""

import os

import pytest

from edge_agent.config import DataSection
from edge_agent.data.watch import stamp


@pytest.fixture
def album(tmp_path):
    for name in ("cat/1.png", "cat/2.png", "day/dog/1.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for folder, _, _ in os.walk(tmp_path):
        os.utime(folder, ns=(0, 0))  # long ago: the clock's step must not hide a change
    return tmp_path


@pytest.mark.parametrize(
    "change",
    [
        lambda album: (album / "cat" / "3.png").touch(),
        lambda album: (album / "cat" / "2.png").unlink(),
        lambda album: (album / "owl").mkdir(),
        lambda album: (album / "day" / "dog" / "2.png").touch(),
    ],
    ids=["another", "one less", "a new class", "in a group"],
)
def test_a_sample_that_comes_or_goes_is_another_stamp(album, change):
    before = stamp(DataSection(str(album)))
    assert stamp(DataSection(str(album))) == before
    change(album)
    assert stamp(DataSection(str(album))) != before


def test_hidden_folders_and_looking_change_nothing(album):
    (album / ".cache").mkdir()
    os.utime(album, ns=(0, 0))
    before = stamp(DataSection(str(album)))
    (album / ".cache" / "x.png").touch()
    (album / "cat" / "1.png").read_bytes()
    assert stamp(DataSection(str(album))) == before


def test_a_file_and_the_rows_into_it_are_watched(tmp_path):
    (tmp_path / "set.npz").write_bytes(b"1")
    (tmp_path / "rows.npz").write_bytes(b"1")
    section = DataSection(str(tmp_path / "set.npz"), rows=str(tmp_path / "rows.npz"))
    stamps = {stamp(section)}
    (tmp_path / "rows.npz").write_bytes(b"12")
    stamps.add(stamp(section))
    (tmp_path / "set.npz").write_bytes(b"12")
    stamps.add(stamp(section))
    assert len(stamps) == 3


@pytest.mark.parametrize(
    "source", ["digits", "my_sensors:read", "spiral:sigma=0.1", "a\0b", "gone/"]
)
def test_a_source_that_cannot_change_has_an_empty_stamp(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert stamp(DataSection(source)) == ""
