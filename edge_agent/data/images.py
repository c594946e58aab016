"""Image files as a bundle takes them, and other samples in files of numbers; Pillow is imported
only here, and only when there is a file to open.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.data import numbers
from edge_agent.data.files import SUFFIXES, photo, read_image
from protofleet.contract import Input
from protofleet.errors import DataError


def find(paths: Iterable[Path], kind: Input | None = None) -> list[Path]:
    """The files themselves, and every image in the folders, in a fixed order; or of other samples
    every file of numbers.
    """
    suffixes = SUFFIXES if kind is None or kind.kind == "image" else numbers.SUFFIXES
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(
                p
                for p in path.rglob("*")
                if p.suffix.lower() in suffixes and not p.name.startswith(".")
            )
        elif path.exists():
            files.append(path)  # named by the user: read whatever it is called
        else:
            raise DataError(f"{path}: no such file or folder")
    return files


def read(path: Path, kind: Input) -> NDArray[Any]:
    """One photo, upright, in the size and the channels that the network was trained with; or one
    sample of another kind.
    """
    if kind.kind != "image":
        return numbers.read(path, kind)
    height, width, channels = kind.shape
    # What training read is read the same way, to the pixel: the reader of training folders decodes
    # a JPEG at a fraction of its size.
    if height == width and channels == 3:
        return read_image(path, height)
    return photo(path, (width, height), _mode(channels)).reshape(height, width, channels)


def fitted(image: NDArray[Any], kind: Input) -> NDArray[Any]:
    """An image of an array in the size and the channels that the network was trained with."""
    if image.shape == kind.shape or kind.kind != "image":
        return image  # what does not fit, the extractor says
    if image.dtype != np.uint8 or image.ndim != 3:
        raise DataError(f"samples of {image.dtype} {list(image.shape)}", "this bundle takes images")
    height, width, channels = kind.shape
    from PIL import Image

    flat = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    resized = flat.convert(_mode(channels)).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized).reshape(height, width, channels)


def _mode(channels: int) -> str:
    mode = {1: "L", 3: "RGB", 4: "RGBA"}.get(channels)
    if mode is None:
        raise DataError(f"this bundle takes images of {channels} channels, files have 1, 3 or 4")
    return mode
