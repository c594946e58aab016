"""A small picture of what is seen now, for a home: made only where the device's owner wished it.

Who looks makes it, as it has the picture and what decodes it; the daemon only carries it.
"""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

from edge_agent.updates import cache
from protofleet.util.files import OWN_FILE, own_folder, write_whole

SIDE, QUALITY = 480, 75  # pixels of the longer side
LARGEST = 120_000  # bytes: hosted brokers take packets of 128 KiB


def wish(bundle: Path, wished: bool) -> None:
    """Whether it is to be made from now on."""
    flag = _flag(bundle)
    with suppress(OSError):
        if wished:
            own_folder(flag.parent)
            flag.touch(mode=OWN_FILE)
        else:
            flag.unlink(missing_ok=True)
            _file(bundle).unlink(missing_ok=True)


def is_wished(bundle: Path) -> bool:
    """Whether anybody wants it."""
    return _flag(bundle).exists()


def show(bundle: Path, picture: bytes) -> None:
    """This picture, small; nothing where it is none."""
    from PIL import Image

    from edge_agent.data.files import FORMATS, MOST_PIXELS

    file = io.BytesIO()
    # Decoders raise what they like; one picture less is no reason not to look.
    with suppress(Exception), Image.open(io.BytesIO(picture), formats=FORMATS) as image:
        if image.width * image.height > MOST_PIXELS:
            return
        image.draft("RGB", (SIDE, SIDE))
        small = image.convert("RGB")
        small.thumbnail((SIDE, SIDE))
        small.save(file, "JPEG", quality=QUALITY)
    with suppress(OSError):
        if file.getvalue() and is_wished(bundle):
            write_whole(_file(bundle), file.getvalue(), lasting=False, mode=OWN_FILE)


def stamp(bundle: Path) -> int:
    """A number that changes with the picture; 0 where there is none."""
    with suppress(OSError):
        return _file(bundle).stat().st_mtime_ns
    return 0


def read(bundle: Path) -> bytes:
    """The picture; nothing where there is none, or one that no broker may take."""
    with suppress(OSError), _file(bundle).open("rb") as file:
        data = file.read(LARGEST + 1)
        return data if len(data) <= LARGEST else b""
    return b""


def _flag(bundle: Path) -> Path:
    return cache.recent_folder(bundle) / "poster.wished"


def _file(bundle: Path) -> Path:
    return cache.recent_folder(bundle) / "poster.jpg"
