"""A folder of images that grows while a device learns from it.

Which images are kept for testing is decided by each file's name, so that a sample never changes
sides when others come. A file that cannot be read (still being copied, or broken) is left out and
named, and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from edge_agent.data.dataset import DataSet, Samples, input_of
from edge_agent.data.files import LabelledFile, find, read_image
from protofleet.errors import DataError

DEFAULT_SIZE = 32


@dataclass(frozen=True)
class Listing:
    """What is in a folder, without a look into the images."""

    root: Path
    classes: tuple[str, ...]
    train: tuple[LabelledFile, ...]
    test: tuple[LabelledFile, ...]


def listed(root: Path, test_share: float) -> Listing:
    """The images by class, and which of them are kept for testing."""
    files = find(root, empty=True)
    classes = tuple(sorted({f.label for f in files}))
    if {f.group for f in files} == {"test", "train"}:
        train = [f for f in files if f.group == "train"]
        test = [f for f in files if f.group == "test"]
    else:
        for_testing = {
            f
            for label in classes
            for f in _for_testing(root, [f for f in files if f.label == label], test_share)
        }
        train = [f for f in files if f not in for_testing]
        test = [f for f in files if f in for_testing]
    return Listing(root, classes, tuple(train), tuple(test))


def load(listing: Listing, size: int) -> tuple[DataSet, list[str]]:
    """The images at this size, and a line for each that could not be read."""
    images: list[Samples] = []
    labels: list[int] = []
    broken: list[str] = []
    counts: list[int] = []
    for part in (listing.train, listing.test):
        before = len(images)
        for file in part:
            try:
                images.append(read_image(file.path, size))
            except DataError as error:
                broken.append(error.words)
                continue
            labels.append(listing.classes.index(file.label))
        counts.append(len(images) - before)
    if not counts[0]:
        why = f" ({broken[0]})" if broken else ""
        raise DataError(f"{listing.root}: no readable image to train on{why}")
    x, name = np.stack(images), listing.root.resolve().name
    return DataSet(
        name, listing.classes, input_of(name, x), x, np.array(labels, np.int64), counts[0]
    ), broken


def _for_testing(root: Path, images: Sequence[LabelledFile], share: float) -> list[LabelledFile]:
    # A draw by name and not a share of a list: in a list, a newcomer would push others over.
    draws = {image: _draw(image.path.relative_to(root)) for image in images}
    chosen = [image for image in images if draws[image] < share]
    if len(chosen) == len(images):  # one of a class must stay to learn it from
        chosen.remove(max(chosen, key=lambda image: draws[image]))
    return chosen


def _draw(path: Path) -> float:
    """A number from 0 to 1 that belongs to this name."""
    # Six bytes: as many as a float holds exactly.
    return int.from_bytes(sha256(path.as_posix().encode()).digest()[:6], "big") / 2**48
