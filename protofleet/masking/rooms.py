"""How much room each sum of a round needs: its rows, the finest step of its values and their
largest size. From it a ring is made that no total can leave, and no larger one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from protofleet.errors import FusionError
from protofleet.settings.fields import setting

GRID_BITS = 40  # after the point, of the grid of `values.sums`
HALF_BITS = 24  # of a number in half precision: its smallest step is 2⁻²⁴
WIDEST = 94  # bits of a total in steps of the grid: two limbs of `values.sums` hold it


@dataclass(frozen=True)
class Ceilings:
    """What no device of the group exceeds, and how many there are."""

    devices: int
    norm: float  # of one prototype
    largest: float  # number of other parts
    samples: int  # of one device
    trace: float  # of a covariance


@dataclass(frozen=True)
class MaskTerms:
    """What a fleet's contract says of masked sums: how many devices may be lost, and what no device
    exceeds.
    """

    dropouts: int = setting(0, "devices of a group that may be lost", low=0)
    norm: float = setting(128.0, "largest length of a prototype", low=1e-6)
    largest: float = setting(1024.0, "largest number of a network's weights", low=1e-6)
    samples: int = setting(2**17, "most samples of one device", low=1)
    trace: float = setting(2.0**14, "largest trace of a covariance", low=1e-6)

    def ceilings(self, devices: int) -> Ceilings:
        """Of a group of so many."""
        return Ceilings(devices, self.norm, self.largest, self.samples, self.trace)

    @property
    def least(self) -> int:
        """Devices below which there is no group."""
        return max(3, 2 * self.dropouts + 2)


@dataclass(frozen=True)
class Room:
    """What one sum of one device may hold: keys 0 … rows − 1, values that are multiples of 2^−point
    and at most `most` in size, weights up to `weight`; `shape` is a row's, None where the device's
    own sum says it.
    """

    rows: int
    point: int
    most: float
    weight: int
    shape: tuple[int, ...] | None = None

    def bits(self, devices: int) -> int:
        """Of a total of values, with its sign."""
        return 1 + math.ceil(math.log2(max(2.0, self.most * devices * 2.0**self.point + 1)))

    def weight_bits(self, devices: int) -> int:
        """Of a total of weights, which has none."""
        return (self.weight * devices).bit_length()


Rooms = Mapping[str, Room]  # by a sum's name, or "name/" for all that begin so


def room_of(name: str, rooms: Rooms) -> Room:
    """The room of a sum."""
    room = rooms.get(name) or rooms.get(name.partition("/")[0] + "/")
    if room is None:
        raise FusionError(f"{name}: no room was made for such a sum")
    return room


def mean_room(
    rows: int, width: int, wire: str, ceilings: Ceilings, *, by_count: bool = False
) -> Room:
    """Of class means as they come over the wire, each once or as often as it has samples."""
    times = ceilings.samples if by_count else 1
    point = HALF_BITS if wire == "half" else GRID_BITS
    return Room(rows, point, ceilings.norm * times, times, (width,))


def tensor_room(ceilings: Ceilings, *, weighted: bool, rows: int = 1) -> Room:
    """Of a network's weights, which travel in float32."""
    times = ceilings.samples if weighted else 1
    return Room(rows, GRID_BITS, ceilings.largest * times, times)
