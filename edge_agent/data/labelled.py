"""A device's labelled samples one by one: by the hash of what is in them, and read when they are
needed, in whatever size an extractor takes.

Of a folder every image counts, but for those in a split `test` of its own: nothing is trained that
would have to be tested on others, and what a fleet knows of its reliability it learns from samples
that are left out in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edge_agent.config import DataSection
from edge_agent.data import folders, images, source
from protofleet.contract import Input

Part = Literal["train", "test"]


@dataclass(frozen=True)
class LabelledSample:
    """What it is called, and what is in it: the same key, the same content."""

    key: str
    label: str
    read: Callable[[], NDArray[Any]]  # as the extractor takes it, or `DataError`


def samples(
    section: DataSection, data_dir: Path | None, kind: Input, part: Part = "train"
) -> Iterator[LabelledSample]:
    """All there are to learn from, in an order that stays; or those that are held back from it."""
    path = Path(section.source)
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.is_dir() and not section.rows:
        yield from _photographs(path, kind, part)
        return
    square = kind.kind == "image" and kind.shape[0] == kind.shape[1]
    if path.is_dir() and square and not section.image_size:
        section = replace(section, image_size=kind.shape[0])  # once, and from the photograph
    pool = source.read(section, data_dir)
    for row in getattr(pool, part):
        x, label = pool.data.x[row], pool.data.classes[int(pool.data.y[row])]
        content = sha256(repr((x.shape, x.dtype.str)).encode() + np.ascontiguousarray(x).tobytes())
        yield LabelledSample(content.hexdigest(), label, partial(images.fitted, x, kind))


def _photographs(root: Path, kind: Input, part: Part) -> Iterator[LabelledSample]:
    listing = folders.listed(root, 0.0)
    for file in listing.train if part == "train" else listing.test:
        if not file.path.is_file():
            continue  # removed since it was listed; or a pipe, which nobody may ever fill
        try:
            with file.path.open("rb") as data:
                content = file_digest(data, "sha256")
        except OSError:
            continue
        yield LabelledSample(content.hexdigest(), file.label, partial(images.read, file.path, kind))
