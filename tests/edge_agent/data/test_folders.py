"""A folder that grows: samples keep their side, and a broken file stops nobody."""

import numpy as np
import pytest
from PIL import Image

from edge_agent.data import folders
from protofleet.errors import DataError


def photo(root, name, value=0):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (value, value, value)).save(path)


@pytest.fixture
def album(tmp_path):
    for label in ("cat", "dog"):
        for i in range(20):
            photo(tmp_path, f"{label}/{i}.png", i)
    return tmp_path


def names(part):
    return {f"{f.label}/{f.path.name}" for f in part}


def test_a_sample_never_changes_sides_when_others_come(album):
    before = folders.listed(album, 0.25)
    for label in ("ant", "cat"):
        for i in range(100, 140):
            photo(album, f"{label}/{i}.png")
    after = folders.listed(album, 0.25)
    assert names(before.train) < names(after.train)
    assert names(before.test) < names(after.test)
    assert 0.1 < len(after.test) / (len(after.test) + len(after.train)) < 0.4
    assert after.classes == ("ant", "cat", "dog")


def test_a_side_depends_on_the_name_alone(album):
    kept = sorted(int(f.path.stem) for f in folders.listed(album, 0.25).test if f.label == "cat")
    assert kept == [0, 5, 7, 8, 10, 13, 17, 19]


def test_of_every_class_one_stays_to_learn_from(tmp_path):
    for i in range(12):
        photo(tmp_path, f"class{i}/only.png")
    found = folders.listed(tmp_path, 0.9)
    assert {f.label for f in found.train} == set(found.classes)
    assert found.test == ()


def test_folders_for_training_and_testing_are_kept_as_they_are(tmp_path):
    photo(tmp_path, "train/cat/1.png")
    photo(tmp_path, "test/cat/2.png")
    found = folders.listed(tmp_path, 0.5)
    assert (names(found.train), names(found.test)) == ({"cat/1.png"}, {"cat/2.png"})


def test_a_file_that_cannot_be_read_is_left_out_and_named(album):
    (album / "cat" / "half.png").write_bytes(b"\x89PNG\r\n\x1a\n half of an image")
    (album / "new").mkdir()  # a class that has nothing yet
    data, broken = folders.load(folders.listed(album, 0.0), 8)
    assert (len(data.y), data.n_train, data.x.shape[1:]) == (40, 40, (8, 8, 3))
    assert [words for words in broken if "half.png: not a readable image" in words]
    assert np.bincount(data.y).tolist() == [20, 20]


def test_nothing_that_can_be_read_is_an_error(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "x.png").write_bytes(b"no")
    with pytest.raises(DataError, match=r"no readable image to train on \(.*x\.png"):
        folders.load(folders.listed(tmp_path, 0.0), 8)
