"""Data sets of a user's own: a folder of images by class, or an `.npz`.

A folder is `root/<class>/*.png`, `root/train/<class>` beside `root/test/<class>`, or
`root/<domain>/<class>`; where no split is given a quarter of each class, chosen by the seed,
becomes the test split.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edge_agent.data.dataset import DataSet, Ints, Samples, input_of, stratified
from protofleet.errors import DataError
from protofleet.util.seeds import generator

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm"})
TEST_SHARE = 0.25
# Whatever a file is called, Pillow tries all that it can read: one of those starts Ghostscript.
FORMATS = ("BMP", "GIF", "JPEG", "PPM", "PNG", "TIFF", "WEBP")
BILINEAR = 2  # Pillow's number for it
MOST_PIXELS = 1 << 25  # decoded: 100 MB. A camera's JPEG is decoded at a fraction of its size


class LabelledFile(NamedTuple):
    """One image file: the folder above its class (a split or a domain), its class, its path."""

    group: str
    label: str
    path: Path


def read_image(path: Path, size: int) -> Samples:
    """One image file as uint8 [size, size, 3], upright as its camera meant it."""
    # A camera's JPEG is decoded at a fraction of its size: far faster, and still twice what is
    # needed, so that resizing has something to average.
    return photo(path, (size, size), "RGB", (2 * size, 2 * size))


def photo(
    path: Path, size: tuple[int, int], mode: str, draft: tuple[int, int] | None = None
) -> Samples:
    """An image file upright, in this width and height and Pillow's `mode`; `draft` is how large
    it need be decoded at least. Whatever a file does to its reader is one `DataError`.
    """
    with _upright(path, mode, draft) as upright:
        return np.asarray(upright.resize(size, BILINEAR))


def picture(path: Path, side: int) -> Samples:
    """An image file upright and in colour, its longer side no longer than this."""
    with _upright(path, "RGB", (side, side)) as upright:
        upright.thumbnail((side, side))
        return np.asarray(upright)


@contextmanager
def _upright(path: Path, mode: str, draft: tuple[int, int] | None) -> Iterator[Any]:
    from PIL import Image, ImageOps

    try:
        if not path.is_file():
            raise ValueError("no file")  # to open a pipe waits for whoever writes to it
        with Image.open(path, formats=FORMATS) as image:
            if draft is not None:
                image.draft(mode, draft)
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"{image.width} × {image.height} pixels")
            yield ImageOps.exif_transpose(image).convert(mode)
    except Exception as error:  # decoders raise what they like
        words = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not a readable image ({words})", "remove or replace it") from None


def folder(root: Path, seed: int, size: int) -> DataSet:
    """All images under `root`, resized to one size, RGB; class names sorted."""
    files = find(root)
    classes = sorted({f.label for f in files})
    groups = sorted({f.group for f in files})
    y = np.array([classes.index(f.label) for f in files], np.int64)
    if groups == ["test", "train"]:
        is_test = np.array([f.group == "test" for f in files])
        train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    else:
        train, test = stratified(y, TEST_SHARE, generator("data", "folder", seed, "split"))
    order = np.concatenate([train, test])
    # Straight into its place: a list of images and their stack would take twice the memory.
    x = np.empty((len(files), size, size, 3), np.uint8)
    for position, row in enumerate(order):
        x[position] = read_image(files[row].path, size)
    has_domains = groups not in ([""], ["train"], ["test", "train"])
    domains = (
        np.array([groups.index(files[row].group) for row in order], np.int64)
        if has_domains
        else None
    )
    name = root.resolve().name
    names = tuple(groups) if has_domains else ()
    return DataSet(name, tuple(classes), input_of(name, x), x, y[order], len(train), domains, names)


def npz(path: Path, seed: int) -> DataSet:
    """Keys `x_train, y_train, x_test, y_test` or `x, y`; optional `classes`, `mean`, `std`."""
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path}: not an .npz file", "np.savez writes one")
    try:
        # Without pickles: a file from elsewhere could otherwise run code.
        with np.load(path, allow_pickle=False) as stored:
            return from_arrays(path.stem, stored, seed)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: not a readable .npz of plain arrays ({error})") from None


def from_arrays(
    name: str,
    stored: Mapping[str, Any],
    seed: int,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> DataSet:
    """A set from arrays under the keys of an `.npz`; each array is taken once, since reading it is
    what costs.
    """
    parts = [p for p in ("train", "test") if f"x_{p}" in stored]
    keys = [(f"x_{p}", f"y_{p}") for p in parts] or [("x", "y")]
    if missing := [key for pair in keys for key in pair if key not in stored]:
        raise DataError(
            f"{name}: no key {missing[0]!r}",
            "keys are x_train, y_train, x_test, y_test, or x and y",
        )
    if "classes" in stored and (size := np.asarray(stored["classes"]).ndim) != 1:
        raise DataError(f"{name}: classes must be a list of names, not an array of {size} axes")
    labels = [np.ravel(stored[y]) for _, y in keys]
    samples = [_samples(name, stored[x]) for x, _ in keys]
    if len({(s.dtype, s.shape[1:]) for s in samples}) > 1:
        raise DataError(f"{name}: x_train and x_test differ in shape or type")
    y, classes = _labels(name, np.concatenate(labels), stored)
    n_train = len(samples[0])
    x = np.concatenate(samples) if len(samples) > 1 else samples[0]
    if len(x) != len(y):
        raise DataError(f"{name}: {len(x)} samples but {len(y)} labels")
    # Without labels there is nothing to split by; DataSet says what is wrong.
    if parts != ["train", "test"] and len(y):
        train, test = stratified(y, TEST_SHARE, generator("data", "npz", seed, "split"))
        order, n_train = np.concatenate([train, test]), len(train)
        x, y = x[order], y[order]
    # The file's own constants come before the published ones.
    mean = np.ravel(stored["mean"]).tolist() if "mean" in stored else mean
    std = np.ravel(stored["std"]).tolist() if "std" in stored else std
    return DataSet(name, classes, input_of(name, x, mean, std), x, y, n_train)


def resized(data: DataSet, size: int) -> DataSet:
    """The same images at another size."""
    from PIL import Image

    if data.input.kind != "image":
        raise DataError(
            f"{data.name}: {data.input.kind}s have no image size", "leave the image size out"
        )
    channels = data.input.shape[2]
    x = np.empty((len(data.x), size, size, channels), np.uint8)
    for row, image in enumerate(data.x):
        flat = Image.fromarray(image[..., 0] if channels == 1 else image)
        x[row] = np.asarray(flat.resize((size, size), Image.Resampling.BILINEAR)).reshape(
            size, size, channels
        )
    return replace(data, x=x, input=input_of(data.name, x, data.input.mean, data.input.std))


def find(root: Path, *, empty: bool = False) -> list[LabelledFile]:
    """Every image under the root, with its class, in a fixed order; `empty` allows class folders
    without any.
    """
    first = _folders(root)
    if not first:
        raise DataError(f"{root}: no folders in it", "one folder of images per class is due")
    if any(_images(f) for f in first):
        return _of_classes("", first, empty)
    # No images one folder down: what is there are groups (a split, or domains) of class folders.
    files = [image for group in first for image in _of_classes(group.name, _folders(group), empty)]
    if not files:
        raise DataError(
            f"{root}: no images in its folders", f"images end in {', '.join(sorted(SUFFIXES))}"
        )
    # A third folder beside train and test would be learned from, or not, by a guess.
    groups = {f.group for f in files}
    if "train" in groups and groups - {"train", "test"}:
        odd = min(groups - {"train", "test"})
        raise DataError(
            f"{root / odd}: beside train only test is understood",
            "move its images into one of the two",
        )
    if groups == {"test"}:
        raise DataError(f"{root}: no images in train, only in test")
    return files


def _of_classes(group: str, folders: Sequence[Path], empty: bool) -> list[LabelledFile]:
    files = []
    for class_folder in folders:
        images = _images(class_folder)
        if not images and not empty:
            raise DataError(
                f"{class_folder}: no images in this class folder", "fill it or remove it"
            )
        files += [LabelledFile(group, class_folder.name, image) for image in images]
    return files


def _folders(root: Path) -> list[Path]:
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))


def _images(root: Path) -> list[Path]:
    return sorted(
        p for p in root.iterdir() if p.suffix.lower() in SUFFIXES and not p.name.startswith(".")
    )


def _samples(name: str, x: Samples) -> Samples:
    if x.dtype == np.uint8 and x.ndim in (3, 4):
        return x if x.ndim == 4 else x[..., None]
    if x.ndim in (2, 3) and x.dtype.kind in "fiu":
        x = x.astype(np.float32, copy=False)
        if bad := int(np.count_nonzero(~np.isfinite(x))):
            raise DataError(
                f"{name}: {bad} numbers are not finite", "clean the array before it is loaded"
            )
    return x


def _labels(name: str, y: Samples, stored: Mapping[str, Any]) -> tuple[Ints, tuple[str, ...]]:
    if "classes" not in stored:
        names, codes = np.unique(y, return_inverse=True)
        return codes.astype(np.int64), tuple(str(n) for n in names)
    if y.dtype.kind not in "iu":
        raise DataError(
            f"{name}: labels of type {y.dtype}", "beside `classes`, labels are whole numbers"
        )
    return y.astype(np.int64), tuple(str(c) for c in stored["classes"])
