"""Data sets of a user's own: folders of images and `.npz` files; the words for what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edge_agent.data.files import read_image
from edge_agent.data.sets import DataSet, load
from protofleet.errors import DataError


def paint(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (12, 10)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def same(a: DataSet, b: DataSet) -> bool:
    return np.array_equal(a.x, b.x) and np.array_equal(a.y, b.y) and a.n_train == b.n_train


def test_a_folder_of_classes(tmp_path: Path) -> None:
    for i in range(4):
        paint(tmp_path / "red" / f"{i}.png", (200, 0, 0))
        paint(tmp_path / "blue" / f"{i}.PNG", (0, 0, 200))
    (tmp_path / "red" / "notes.txt").write_text("not an image")
    data = load(str(tmp_path), data_dir=None)
    assert data.classes == ("blue", "red")
    assert (data.x.shape, data.n_train, data.domains) == ((8, 32, 32, 3), 6, None)
    assert (data.x[data.y == 1] == [200, 0, 0]).all()
    assert (data.x[data.y == 0] == [0, 0, 200]).all()
    assert load(str(tmp_path), data_dir=None, image_size=8).input.shape == (8, 8, 3)
    assert same(load(tmp_path.name, data_dir=tmp_path.parent), data)


def test_a_folder_with_its_own_split(tmp_path: Path) -> None:
    for part, count in (("train", 3), ("test", 2)):
        for i in range(count):
            paint(tmp_path / part / "cat" / f"{i}.jpg", (90, 90, 90))
            paint(tmp_path / part / "dog" / f"{i}.jpg", (30, 30, 30))
    data = load(str(tmp_path), data_dir=None)
    assert (data.classes, data.n_train, len(data.y)) == (("cat", "dog"), 6, 10)
    assert np.bincount(data.y[: data.n_train]).tolist() == [3, 3]
    paint(tmp_path / "val" / "cat" / "0.jpg", (1, 1, 1))
    with pytest.raises(DataError, match="beside train only test"):
        load(str(tmp_path), data_dir=None)


def test_a_folder_with_domains(tmp_path: Path) -> None:
    for domain, light in (("day", 220), ("night", 20)):
        for label in ("car", "tree"):
            for i in range(4):
                paint(tmp_path / domain / label / f"{i}.png", (light, light, light))
    data = load(str(tmp_path), data_dir=None)
    assert (data.classes, data.domain_names) == (("car", "tree"), ("day", "night"))
    assert data.domains is not None
    assert (data.x[data.domains == 0] == 220).all()
    assert (data.x[data.domains == 1] == 20).all()


def test_what_is_wrong_in_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="one folder of images per class"):
        load(str(tmp_path), data_dir=None)
    (tmp_path / "red").mkdir()
    with pytest.raises(DataError, match="no images in its folders"):
        load(str(tmp_path), data_dir=None)
    paint(tmp_path / "blue" / "0.png", (0, 0, 9))
    with pytest.raises(DataError, match=r"red: no images in this class folder"):
        load(str(tmp_path), data_dir=None)
    whole = (tmp_path / "blue" / "0.png").read_bytes()
    (tmp_path / "red" / "broken.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"red/broken\.png: not a readable image"):
        load(str(tmp_path), data_dir=None)


def test_a_photo_is_read_upright_and_in_colour(tmp_path: Path) -> None:
    image = Image.new("L", (40, 20), 0)
    image.paste(
        255, (0, 0, 20, 20)
    )  # left half white; the tag says: turn by a quarter to the right
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.png", exif=exif)
    read = read_image(tmp_path / "turned.png", 8)
    assert (read.shape, read.dtype) == ((8, 8, 3), np.uint8)
    assert read[0].min() > 200
    assert read[-1].max() < 55


@pytest.mark.parametrize(
    ("x", "kind", "shape"),
    [
        (np.zeros((8, 5)), "vector", (5,)),
        (np.zeros((8, 5), np.int16), "vector", (5,)),
        (np.zeros((8, 6, 2)), "series", (6, 2)),
        (np.zeros((8, 6, 5), np.uint8), "image", (6, 5, 1)),
        (np.zeros((8, 6, 5, 3), np.uint8), "image", (6, 5, 3)),
    ],
)
def test_an_npz_of_any_kind(
    tmp_path: Path, x: np.ndarray, kind: str, shape: tuple[int, ...]
) -> None:
    np.savez(tmp_path / "own.npz", x=x, y=np.array(list("abababab")))
    data = load(str(tmp_path / "own.npz"), data_dir=None)
    assert (data.input.kind, data.input.shape, data.classes, data.n_train) == (
        kind,
        shape,
        ("a", "b"),
        6,
    )
    assert data.x.dtype == (np.uint8 if kind == "image" else np.float32)
    assert len(data.input.mean) == (shape[-1] if kind == "image" else 0)


def test_an_npz_may_bring_classes_and_constants(tmp_path: Path) -> None:
    x = np.ones((6, 2), np.float32)
    np.savez(
        tmp_path / "own.npz",
        x=x,
        y=[0, 0, 0, 2, 2, 2],
        classes=["a", "b", "c"],
        mean=[1, 2],
        std=[3, 4],
    )
    data = load("own.npz", data_dir=tmp_path)
    assert (data.classes, data.input.mean, data.input.std) == (("a", "b", "c"), (1, 2), (3, 4))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((4, 2))}, "no key 'y'"),
        (
            {"x_train": np.zeros((4, 2)), "y_train": np.zeros(4), "x_test": np.zeros((4, 2))},
            "no key 'y_test'",
        ),
        ({"x": np.zeros((4, 2)), "y": np.zeros(3)}, "4 samples but 3 labels"),
        ({"x": np.full((4, 2), np.nan), "y": np.zeros(4)}, "8 numbers are not finite"),
        (
            {"x": np.zeros((4, 2)), "y": [0, 0, 1, 7], "classes": ["a", "b"]},
            "labels from 0 to 7, but 2 classes",
        ),
        ({"x": np.zeros((4, 2)), "y": [0.0] * 4, "classes": ["a"]}, "labels are whole numbers"),
        ({"x": np.zeros((4, 3, 8, 8), np.uint8), "y": np.zeros(4)}, "channels come last"),
        ({"x": np.zeros((4, 8, 8, 3)), "y": np.zeros(4)}, "images are uint8"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, "no sample to train on"),
        ({"x": np.array([None, None]), "y": np.zeros(2)}, "not a readable .npz of plain arrays"),
    ],
)
def test_what_is_wrong_in_an_npz_is_named(
    tmp_path: Path, arrays: dict[str, np.ndarray], words: str
) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match=words) as caught:
        load(str(tmp_path / "bad.npz"), data_dir=None)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_npz_or_a_damaged_one(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(DataError, match=r"text\.npz: not an \.npz file"):
        load(str(tmp_path / "text.npz"), data_dir=None)
    np.savez(tmp_path / "bits.npz", x=np.ones((64, 8)), y=np.zeros(64))
    raw = bytearray((tmp_path / "bits.npz").read_bytes())
    raw[1000] ^= 255
    (tmp_path / "bits.npz").write_bytes(raw)
    with pytest.raises(DataError, match="not a readable"):
        load(str(tmp_path / "bits.npz"), data_dir=None)


def test_image_size_is_for_images() -> None:
    assert load("digits", data_dir=None, image_size=16).input.shape == (16, 16, 1)
    with pytest.raises(DataError, match="vectors have no image size"):
        load("spiral:samples=20", data_dir=None, image_size=16)
