"""Samples one by one, by what is in them, at the size that an extractor takes."""

import os

import numpy as np
import pytest
from PIL import Image

from edge_agent.config import DataSection
from edge_agent.data import labelled
from protofleet.contract import Input
from protofleet.errors import DataError

COLOUR = Input("image", (6, 4, 3), (0.5,) * 3, (0.5,) * 3)
GREY = Input("image", (5, 5, 1), (0.5,), (0.5,))


def photo(path, value, size=(9, 7), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, 0, 0)).save(path)


def all_of(source, kind=COLOUR):
    return list(labelled.samples(DataSection(source=str(source)), None, kind))


def test_a_folder_of_any_sizes_and_channels_is_read_as_the_extractor_takes_it(tmp_path):
    photo(tmp_path / "a/1.png", 200)
    photo(tmp_path / "a/2.png", 90, size=(30, 50), mode="L")
    photo(tmp_path / "b/1.png", 200)
    samples = all_of(tmp_path)
    assert [sample.label for sample in samples] == ["a", "a", "b"]
    assert all(sample.read().shape == (6, 4, 3) for sample in samples)
    assert all(sample.read().shape == (5, 5, 1) for sample in all_of(tmp_path, GREY))
    # the same picture has the same key wherever it lies
    assert samples[0].key == samples[2].key != samples[1].key


def test_what_is_no_file_is_no_sample(tmp_path):
    photo(tmp_path / "a/1.png", 200)
    os.mkfifo(tmp_path / "a/2.png")
    (tmp_path / "a/3.png").symlink_to(tmp_path / "nowhere")
    assert len(all_of(tmp_path)) == 1


def test_every_photo_counts_but_those_of_a_split_for_testing(tmp_path):
    for n in range(12):
        photo(tmp_path / f"plain/a/{n}.png", 10 + n)
        photo(tmp_path / f"split/{'test' if n < 5 else 'train'}/a/{n}.png", 10 + n)
    assert len(all_of(tmp_path / "plain")) == 12
    assert len(all_of(tmp_path / "split")) == 7


def test_arrays_are_resized_too_and_what_is_broken_says_so(tmp_path):
    x = np.arange(8 * 7 * 7, dtype=np.uint8).reshape(8, 7, 7)
    y = np.array(["a", "b"] * 4)
    np.savez(tmp_path / "x.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
    samples = all_of(tmp_path / "x.npz")
    assert len({sample.key for sample in samples}) == 8
    assert samples[3].label == "b"
    assert samples[3].read().shape == (6, 4, 3)
    (tmp_path / "f/a").mkdir(parents=True)
    (tmp_path / "f/a/torn.png").write_bytes(b"PNG")
    with pytest.raises(DataError, match="not a readable image"):
        all_of(tmp_path / "f")[0].read()
