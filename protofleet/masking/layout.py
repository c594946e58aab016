"""Sums as numbers of a ring that is just large enough: what is masked, and what the total is read
from again, to the bit.
"""

# Theory of operation
#
# A mask hides a number only where both are of a ring: added modulo 2^(8b), a number and a uniform
# mask make a uniform number. And the masks cancel only if no total leaves the ring. So both ends
# must know beforehand, of every sum, how fine its values are and how large a total can become:
# that is its `Room`, from the contract and the fleet's limits. Nothing else decides the width, and
# the narrower it is the fewer bytes travel:
#
#   value    1 + log₂(devices · most · 2^point) bits, two's complement, rounded up to whole bytes
#   weight   log₂(devices · weight) bits, too
#
# Half precision is a multiple of 2⁻²⁴ and below the fleet's largest norm: with |v| < 2⁷ over 2²⁴
# samples that is 56 bits, 3.5 times what half precision itself takes. What is on a coarser grid (a
# lineage's means) takes less; float32 takes the 40 bits of the exact grid.
#
# Every device sends the same layout: all rows that there could be, zeros where it has none. Which
# classes a device holds would otherwise be told by what it leaves out. A total's row of weight 0 is
# what nobody sent, and is dropped again: so the sums are those of the plain run, to the bit.
#
# Lanes. Numbers of up to 64 bits are computed in one machine word, wider ones in two with a carry,
# and only what travels is cut to their bytes: modulo 2⁶⁴ and then modulo 2^(8b) is modulo 2^(8b).
# So a mask is a stream of words that is added as it comes, without a loop over numbers.
#
# A device whose values do not fit (larger than the limits say, or finer than its room) does not
# take part: a value that wrapped around would spoil the total of all, and nobody could see whose.

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import FusionError
from protofleet.masking.rooms import GRID_BITS, WIDEST, Room, Rooms, room_of
from protofleet.values.prototypes import Ints, Tensors
from protofleet.values.sums import Partial, Sum, as_tensors, from_tensors

Words = NDArray[np.uint64]
Shapes = Mapping[str, tuple[int, ...]]  # of rows, by a sum's name
LARGEST = 60 << 20  # bytes of a masked upload: what a message may have, with its envelope


@dataclass(frozen=True)
class Slot:
    """Where the numbers of one kind of one sum lie: rows' values, or their weights."""

    name: str
    weights: bool
    shape: tuple[int, ...]
    width: int  # bytes that a number takes

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Lanes:
    """Numbers of a ring as words: those of one word each, then those of two."""

    narrow: Words
    low: Words
    high: Words

    @staticmethod
    def read(stream: bytes, narrow: int, wide: int) -> Lanes:
        """So many of either out of uniform bytes."""
        words = np.frombuffer(stream, "<u8", narrow + 2 * wide)
        return Lanes(words[:narrow], words[narrow : narrow + wide], words[narrow + wide :])

    def plus(self, other: Lanes) -> Lanes:
        """The sum."""
        low = self.low + other.low
        return Lanes(
            self.narrow + other.narrow, low, self.high + other.high + (low < self.low).astype("u8")
        )

    def minus(self, other: Lanes) -> Lanes:
        """The difference."""
        borrow = (self.low < other.low).astype("u8")
        return Lanes(
            self.narrow - other.narrow, self.low - other.low, self.high - other.high - borrow
        )


@dataclass(frozen=True)
class Layout:
    """The numbers of a round in their order, the same at every device of a group."""

    devices: int
    rooms: Mapping[str, Room]
    slots: tuple[Slot, ...]

    @staticmethod
    def of(rooms: Rooms, partial: Partial, devices: int) -> Layout:
        """Of the rooms that a recipe names and, where a row's shape is a network's affair, of a
        device's own sums.
        """
        return Layout.shaped(rooms, open_shapes(rooms, partial), devices)

    @staticmethod
    def shaped(rooms: Rooms, shapes: Shapes, devices: int) -> Layout:
        """Of rooms, and the shapes of rows that only networks know."""
        exact = {name: room for name, room in rooms.items() if not name.endswith("/")}
        for name, shape in shapes.items():
            room = room_of(name, rooms)
            if room.shape is not None:
                raise FusionError(f"{name}: its rows are known to be of shape {room.shape}")
            exact[name] = Room(room.rows, room.point, room.most, room.weight, shape)
        slots: list[Slot] = []
        for name in sorted(exact):
            room = exact[name]
            bits, beyond = room.bits(devices), GRID_BITS - room.point
            if not 0 <= beyond <= 32 or max(bits + beyond, room.weight_bits(devices) + 34) > WIDEST:
                words = f"{name}: no room for totals of {bits} bits"
                raise FusionError(words, "draw the fleet's limits closer")
            shape = (room.rows, *(room.shape or ()))
            slots.append(Slot(name, False, shape, (bits + 7) // 8))
            slots.append(Slot(name, True, (room.rows,), (room.weight_bits(devices) + 7) // 8))
        layout = Layout(devices, exact, tuple(sorted(slots, key=lambda slot: slot.width > 8)))
        if layout.octets > LARGEST:
            raise FusionError(f"a masked upload of {layout.octets} bytes, at most {LARGEST} travel")
        return layout

    @property
    def narrow(self) -> int:
        """How many numbers take one word."""
        return sum(slot.size for slot in self.slots if slot.width <= 8)

    @property
    def wide(self) -> int:
        """How many take two."""
        return sum(slot.size for slot in self.slots if slot.width > 8)

    @property
    def octets(self) -> int:
        """What a masked upload weighs."""
        return sum(slot.size * slot.width for slot in self.slots)

    def digest(self) -> str:
        """Equal where devices may be added up."""
        rooms = sorted((name, room) for name, room in self.rooms.items())
        return sha256(repr((self.devices, rooms, self.slots)).encode()).hexdigest()

    def zeros(self) -> Lanes:
        """Nothing, added to nothing."""
        return Lanes(*(np.zeros(n, np.uint64) for n in (self.narrow, self.wide, self.wide)))

    def pack(self, partial: Partial) -> Lanes:
        """One device's sums, refused where they have no room."""
        lanes = self.zeros()
        whole = as_tensors(partial)
        for slot, at in self._places():
            keys = whole.arrays.get(f"{slot.name}.keys")
            if keys is None or not keys.size:
                continue
            room = self.rooms[slot.name]
            if int(keys.min()) < 0 or int(keys.max()) >= room.rows:
                raise FusionError(f"{slot.name}: key {int(keys.max())} of {room.rows}")
            if slot.weights:
                rows = np.zeros(slot.shape, np.int64)
                rows[keys] = whole[f"{slot.name}.weights"]
                if int(rows.max()) > room.weight:
                    words = f"{slot.name}: a weight of {int(rows.max())}"
                    raise FusionError(f"{words}, at most {room.weight} has room")
                lanes.narrow[at] = rows.reshape(-1).view(np.uint64)
                continue
            low, high = _steps(slot.name, whole, room, slot.shape)
            if slot.width <= 8:
                lanes.narrow[at] = low
            else:
                lanes.low[at], lanes.high[at] = low, high
        return lanes

    def unpack(self, total: Lanes) -> Partial:
        """The sums of a total; a row that nobody stands behind is none."""
        values: dict[str, tuple[Ints, Ints]] = {}
        weights: dict[str, Ints] = {}
        for slot, at in self._places():
            if slot.weights:
                numbers = total.narrow[at] & _mask(slot.width)
                weights[slot.name] = numbers.astype(np.int64)
                continue
            if slot.width <= 8:
                spare = 64 - 8 * slot.width
                low = (total.narrow[at] << np.uint64(spare)).view(np.int64) >> spare
                high = low >> 63
            else:
                spare = 128 - 8 * slot.width
                low = total.low[at].view(np.int64)
                high = (total.high[at] << np.uint64(spare)).view(np.int64) >> spare
            tall, short = _limbs(low, high, GRID_BITS - self.rooms[slot.name].point)
            values[slot.name] = tall.reshape(slot.shape), short.reshape(slot.shape)
        arrays: dict[str, Any] = {}
        for name, (high, low) in values.items():
            keys = np.flatnonzero(weights[name])
            if np.any(high[weights[name] == 0]) or np.any(low[weights[name] == 0]):
                raise FusionError(f"{name}: values without a weight: this is no total")
            some = {"keys": keys, "weights": weights[name][keys]}
            some |= {"high": high[keys], "low": low[keys]}
            if keys.size:
                arrays |= {f"{name}.{limb}": array for limb, array in some.items()}
        return from_tensors(Tensors(arrays))

    def encode(self, lanes: Lanes) -> bytes:
        """As they travel: each number in its own width."""
        pieces: list[bytes] = []
        for slot, at in self._places():
            if slot.width <= 8:
                pieces.append(_cut(lanes.narrow[at], slot.width))
                continue
            both = np.stack([lanes.low[at], lanes.high[at]], axis=1)
            octets = np.ascontiguousarray(both, "<u8").view(np.uint8).reshape(-1, 16)
            pieces.append(octets[:, : slot.width].tobytes())
        return b"".join(pieces)

    def decode(self, message: bytes) -> Lanes:
        """And back."""
        if len(message) != self.octets:
            raise FusionError(f"a masked upload of {len(message)} bytes, {self.octets} are due")
        lanes, start = self.zeros(), 0
        for slot, at in self._places():
            raw = np.frombuffer(message, np.uint8, slot.size * slot.width, start)
            start += slot.size * slot.width
            words = 1 if slot.width <= 8 else 2
            octets = np.zeros((slot.size, 8 * words), np.uint8)
            octets[:, : slot.width] = raw.reshape(-1, slot.width)
            numbers = octets.view("<u8")
            if words == 1:
                lanes.narrow[at] = numbers[:, 0]
            else:
                lanes.low[at], lanes.high[at] = numbers[:, 0], numbers[:, 1]
        return lanes

    def _places(self) -> Iterator[tuple[Slot, slice]]:
        """Each slot with its place among the numbers of as many words."""
        ends = {True: 0, False: 0}
        for slot in self.slots:
            wide = slot.width > 8
            yield slot, slice(ends[wide], ends[wide] + slot.size)
            ends[wide] += slot.size


def open_shapes(rooms: Rooms, partial: Partial) -> dict[str, tuple[int, ...]]:
    """Of a device's own sums the shapes that no room names; refused where they contradict one."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, part in partial.items():
        if not isinstance(part, Sum):
            raise FusionError(f"{name}: only what is a sum can be masked")
        room, shape = room_of(name, rooms), part.low.shape[1:]
        if room.shape is None:
            shapes[name] = shape
        elif room.shape != shape:
            raise FusionError(f"{name}: rows of shape {shape} where {room.shape} are due")
    return shapes


def _steps(name: str, whole: Tensors, room: Room, shape: tuple[int, ...]) -> tuple[Words, Words]:
    """Values as whole numbers of the room's step, in two's complement of two words."""
    keys, limbs = whole[f"{name}.keys"], (whole[f"{name}.low"], whole[f"{name}.high"])
    if f"{name}.top" in whole.arrays:
        raise FusionError(f"{name}: a value beyond 2⁵⁴ has no room")
    low, high = (np.zeros(shape, np.int64) for _ in limbs)
    low[keys], high[keys] = limbs
    # Whole steps of the grid: `high` · 2³² + `low`, where `low` is carried and so not negative.
    coarse = GRID_BITS - room.point
    if np.any(low & np.int64(2**coarse - 1)):
        raise FusionError(f"{name}: a value is finer than 2^-{room.point}, which has no room")
    size = np.abs(high.astype(np.float64) * 2.0**32 + low).max(initial=0.0)
    if size > room.most * 2.0**GRID_BITS:
        words = f"{name}: a sum of {size * 2.0**-GRID_BITS:.3g}"
        raise FusionError(f"{words}, at most {room.most:.3g} has room")
    tall = high >> min(63, 32 + coarse)
    short = (high << (32 - coarse)) | (low >> coarse)
    return short.reshape(-1).view(np.uint64), tall.reshape(-1).view(np.uint64)


def _limbs(low: Ints, high: Ints, coarse: int) -> tuple[Ints, Ints]:
    """`high` and `low` of `values.sums` out of two words, in steps 2^coarse times the grid's."""
    rest = (low << coarse) & np.int64(2**32 - 1)
    words = low.view(np.uint64) >> np.uint64(32 - coarse)
    return (high << (32 + coarse)) + words.astype(np.int64), rest


def _cut(words: Words, width: int) -> bytes:
    octets = np.ascontiguousarray(words, "<u8").view(np.uint8).reshape(-1, 8)
    return octets[:, :width].tobytes()


def _mask(width: int) -> np.uint64:
    return np.uint64(2 ** (8 * width) - 1)
