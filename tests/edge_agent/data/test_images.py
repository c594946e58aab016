"""Photos as a bundle takes them: upright, in its size and channels, and one line for what is
none.
"""

import os

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from edge_agent.data.files import read_image
from edge_agent.data.images import find, read
from protofleet.contract import Input
from protofleet.errors import DataError


@pytest.fixture
def photo(tmp_path):
    """Left half red, right half blue."""
    image = Image.new("RGB", (40, 20), (0, 0, 255))
    image.paste((255, 0, 0), (0, 0, 20, 20))
    image.save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_folders_are_searched_in_order_and_files_are_taken_as_they_are_named(tmp_path):
    for name in ("b/2.png", "b/1.JPG", "a.png", ".half.png", "notes.txt", "odd.dat"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    inside = [tmp_path / name for name in ("a.png", "b/1.JPG", "b/2.png")]
    assert find([tmp_path]) == inside
    assert find([tmp_path / "odd.dat", tmp_path / "b"]) == [tmp_path / "odd.dat", *inside[1:]]
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        find([tmp_path / "nowhere"])


def test_a_square_one_in_colour_is_read_as_training_reads_it(photo):
    ours = read(photo, Input("image", (8, 8, 3)))
    assert np.array_equal(ours, read_image(photo, 8))
    assert ours[0, 0].tolist() == [255, 0, 0]
    assert ours[0, -1].tolist() == [0, 0, 255]


@pytest.mark.parametrize(
    ("shape", "left", "right"),
    [
        ((6, 8, 3), [255, 0, 0], [0, 0, 255]),
        ((6, 8, 1), [76], [29]),  # ITU-R 601: 0.299 of red, 0.114 of blue
        ((8, 8, 4), [255, 0, 0, 255], [0, 0, 255, 255]),
    ],
)
def test_other_sizes_and_channels_are_the_networks(photo, shape, left, right):
    pixels = read(photo, Input("image", shape))
    assert (pixels.shape, pixels.dtype) == (shape, np.uint8)
    assert (pixels[0, 0].tolist(), pixels[0, -1].tolist()) == (left, right)


def test_one_that_lies_on_its_side_is_turned_whatever_the_size(tmp_path):
    image = Image.new("L", (40, 20), 0)
    image.paste(255, (0, 0, 20, 20))
    exif = image.getexif()
    exif[0x0112] = 6  # the camera was turned by a quarter: the left half belongs on top
    image.save(tmp_path / "turned.png", exif=exif)
    pixels = read(tmp_path / "turned.png", Input("image", (8, 6, 1)))
    assert pixels[0].min() > 200
    assert pixels[-1].max() < 55


def test_what_cannot_be_read_is_one_line(tmp_path, photo):
    (tmp_path / "half.png").write_bytes(photo.read_bytes()[:40])
    for shape in ((8, 8, 3), (8, 6, 1)):
        with pytest.raises(DataError, match=r"half\.png: not a readable image") as refusal:
            read(tmp_path / "half.png", Input("image", shape))
        assert "\n" not in str(refusal.value)
    with pytest.raises(DataError, match="this bundle takes vectors, in"):
        read(photo, Input("vector", (4,)))
    with pytest.raises(DataError, match="images of 2 channels, files have 1, 3 or 4"):
        read(photo, Input("image", (8, 8, 2)))


SHAPES = pytest.mark.parametrize("shape", [(8, 8, 3), (6, 8, 1)])


@SHAPES
@pytest.mark.parametrize("what", ["of a form that cameras have not", "a bomb", "a pipe"])
def test_a_file_is_an_image_by_what_is_in_it_and_of_a_size_that_fits(tmp_path, what, shape):
    path = tmp_path / "photo.png"
    if what == "a bomb":
        Image.new("1", (6000, 6000)).save(path)
        assert path.stat().st_size < 10_000
    elif what == "a pipe":
        os.mkfifo(path)
    else:
        Image.new("RGB", (8, 8)).save(path, "DDS")
        data = bytearray(path.read_bytes())
        data[80:84] = bytes(4)  # of the pixels: a decoder that raises what nobody expects
        path.write_bytes(data)
    with pytest.raises(DataError, match="not a readable image"):
        read(path, Input("image", shape))


@SHAPES
def test_no_file_is_a_program(tmp_path, monkeypatch, shape):
    """Pillow gives PostScript to Ghostscript, whatever the file is called."""
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "gs").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    Image.new("RGB", (8, 8)).save(tmp_path / "photo.png", "EPS")
    with pytest.raises(DataError, match="not a readable image"):
        read(tmp_path / "photo.png", Input("image", shape))
    assert not (tmp_path / "ran").exists()
