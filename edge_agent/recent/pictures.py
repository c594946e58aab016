"""A picture as the recent queue keeps it: a JPEG of bounded size, sharp enough to learn from."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.data.files import FORMATS, MOST_PIXELS
from edge_agent.recent.queue import LARGEST_PICTURE
from protofleet.errors import DataError

SIDE, QUALITY = 1024, 90  # pixels of the longer side of what is encoded here
_JPEG = b"\xff\xd8\xff"


def of_array(image: NDArray[Any]) -> bytes:
    """Of uint8 pixels, grey or RGB; nothing of what is no image."""
    if image.ndim != 3 or image.dtype != np.uint8 or image.shape[2] not in (1, 3, 4):
        return b""
    from PIL import Image

    flat = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    return _encoded(flat)


def of_file(path: Path) -> bytes:
    """Of an image file. A JPEG that is small enough stays what it is, to the byte: what is learned
    of it later is what was answered now.
    """
    from PIL import Image, ImageOps

    try:
        if not path.is_file():
            raise ValueError("no file")
        if path.stat().st_size <= LARGEST_PICTURE:
            data = path.read_bytes()
            if data.startswith(_JPEG):
                return data
        with Image.open(path, formats=FORMATS) as image:
            image.draft("RGB", (SIDE, SIDE))
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"{image.width} × {image.height} pixels")
            return _encoded(ImageOps.exif_transpose(image))
    except Exception as error:  # decoders raise what they like
        words = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not a readable image ({words})") from None


def _encoded(image: Any) -> bytes:
    plain, file = image.convert("RGB"), io.BytesIO()
    plain.thumbnail((SIDE, SIDE))
    plain.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
