"""Parts of a picture that are looked at by themselves, each under a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_agent.cameras.origins import NAME
from protofleet.errors import SettingError

Pixels = NDArray[np.uint8]
T = TypeVar("T", bound=np.generic)
EXAMPLE = "write it like door=0.1,0.2,0.5,0.9: left, top, right and bottom as shares of the picture"
MOST = 16  # regions of a camera


@dataclass(frozen=True)
class Region:
    """A rectangle by shares of width and height; without a name it is all that a camera sees."""

    name: str = ""
    left: float = 0.0
    top: float = 0.0
    right: float = 1.0
    bottom: float = 1.0

    def cut(self, image: NDArray[T]) -> NDArray[T]:
        """This part of an array of rows and columns, at least one of each."""
        height, width = image.shape[:2]
        rows = _span(self.top, self.bottom, height)
        return image[rows, _span(self.left, self.right, width)]


WHOLE = Region()


def parse(texts: Sequence[str], cameras: Sequence[str]) -> Mapping[str, tuple[Region, ...]]:
    """`[camera/]name=left,top,right,bottom` each; without a camera it is every camera's. A camera
    without regions is looked at whole.
    """
    regions: dict[str, list[Region]] = {camera: [] for camera in cameras}
    for text in _whole(texts):
        camera, slash, rest = text.partition("/")
        region = _region(rest if slash else text, text)
        if slash and camera not in regions:
            names = ", ".join(cameras)
            raise SettingError(f"region {text!r}: no camera {camera!r}", f"there are {names}")
        for owner in [camera] if slash else cameras:
            if region.name in {other.name for other in regions[owner]}:
                raise SettingError(f"two regions are called {region.name!r}", EXAMPLE)
            regions[owner].append(region)
    if any(len(own) > MOST for own in regions.values()):
        raise SettingError(f"a camera has more than {MOST} regions")
    return {camera: tuple(own) or (WHOLE,) for camera, own in regions.items()}


def _whole(texts: Sequence[str]) -> list[str]:
    """The environment has lists with commas between, and these have commas in them."""
    whole: list[str] = []
    for text in texts:
        if "=" in text or not whole:
            whole.append(text)
        else:
            whole[-1] += f",{text}"
    return whole


def _region(text: str, whole: str) -> Region:
    name, _, numbers = text.partition("=")
    try:
        x0, y0, x1, y1 = (float(number) for number in numbers.split(","))
    except ValueError:
        raise SettingError(f"region {whole!r} is not four numbers", EXAMPLE) from None
    # Written so that what is no number is refused, too.
    if not (0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1):
        raise SettingError(f"region {whole!r} is not within the picture", EXAMPLE)
    if not NAME.fullmatch(name.strip()):
        raise SettingError(
            f"region {whole!r}: its name cannot be used", "letters, digits, '-', '_', at most 30"
        )
    return Region(name.strip(), x0, y0, x1, y1)


def _span(low: float, high: float, size: int) -> slice:
    first = min(int(low * size), size - 1)
    return slice(first, max(first + 1, round(high * size)))
