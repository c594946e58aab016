"""A picture is kept as it came where it is a small JPEG, and as one where it is not."""

import io

import numpy as np
import pytest
from PIL import Image

from edge_agent.recent import pictures
from edge_agent.recent.queue import LARGEST_PICTURE
from protofleet.errors import DataError
from tests.edge_agent.recent.seeing import jpeg


def opened(data):
    return Image.open(io.BytesIO(data))


def test_a_small_jpeg_stays_what_it_is_to_the_byte(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg(1))
    assert pictures.of_file(tmp_path / "a.jpg") == jpeg(1)


def test_anything_else_becomes_one_of_bounded_size(tmp_path):
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 255, (1500, 2100, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    Image.fromarray(noise).save(tmp_path / "a.jpg", quality=98)
    for name in ("a.png", "a.jpg"):
        data = pictures.of_file(tmp_path / name)
        assert len(data) <= LARGEST_PICTURE
        assert max(opened(data).size) == pictures.SIDE
    assert opened(pictures.of_array(noise)).size == (1024, 731)
    assert opened(pictures.of_array(noise[..., :1])).format == "JPEG"
    assert pictures.of_array(np.zeros(7, np.float32)) == b""


def test_what_is_no_picture_is_one_line(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no picture")
    for path in (tmp_path / "a.jpg", tmp_path / "none.png", tmp_path):
        with pytest.raises(DataError, match="not a readable image"):
            pictures.of_file(path)
