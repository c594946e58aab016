"""Who holds which photographs, and which nobody does."""

import numpy as np
import pytest
from PIL import Image

from protofleet.errors import DataError
from simulators.photos.photographs import ALL, embedded, split, without
from tests.simulators.photos.made_up import photographs


def test_a_third_of_each_class_and_camera_is_held_back_and_more_shots_add_to_fewer():
    some = photographs()
    few, many, every = (split(some, 3, shots) for shots in (2, 5, ALL))
    assert np.array_equal(few.test, every.test)
    assert set(few.train) < set(many.train) < set(every.train)
    assert not set(every.train) & set(every.test)
    assert len(every.train) + len(every.test) == len(some.labels)
    cells = few.train // 24  # a class of a camera
    assert np.bincount(cells).tolist() == [2] * 12
    assert set(many.of(some, 1)) == {row for row in many.train if some.domains[row] == 1}


def test_another_seed_holds_others_back():
    some = photographs()
    assert not np.array_equal(split(some, 0, 5).test, split(some, 1, 5).test)


def test_a_class_can_be_left_out():
    some = photographs()
    rows = without(some, np.arange(len(some.labels)), 2)
    assert 2 not in some.labels[rows]
    assert len(rows) == 3 * len(some.labels) // 4


def test_folders_of_cameras_are_read_in_order(tmp_path):
    for camera in ("yard", "door"):
        for label in ("cat", "ant"):
            folder = tmp_path / camera / label
            folder.mkdir(parents=True)
            Image.new("RGB", (4, 4)).save(folder / "1.png")
    seen = []

    def embed(files):
        seen.extend(str(file.relative_to(tmp_path)) for file in files)
        return np.zeros((len(files), 2), np.float32)

    found = embedded(tmp_path, embed)
    assert (found.classes, found.domain_names) == (("ant", "cat"), ("door", "yard"))
    assert seen == ["door/ant/1.png", "door/cat/1.png", "yard/ant/1.png", "yard/cat/1.png"]
    assert found.domains.tolist() == [0, 0, 1, 1]
    assert found.labels.tolist() == [0, 1, 0, 1]


def test_photographs_of_no_camera_are_refused(tmp_path):
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "cat" / "1.png")
    with pytest.raises(DataError, match="no domains"):
        embedded(tmp_path, lambda files: np.zeros((len(files), 2), np.float32))
