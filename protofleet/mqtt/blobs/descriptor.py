"""What stands in for a payload too large for one packet, and runs of chunk numbers.

On the wire a descriptor is a message of type `slip`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protofleet.errors import BlobError

if TYPE_CHECKING:
    from protofleet.wire import Envelope

Ranges = list[tuple[int, int]]  # first and last chunk of each run

HEADROOM = 1024  # bytes of a packet that are not payload: topic, header, properties
# A descriptor comes from outside and decides how much is set aside for it: the receiver keeps a
# byte a chunk in memory, so that many and tiny ones are refused.
MOST_CHUNKS = 65_536
SMALLEST = 256  # bytes in a chunk, unless the payload is one chunk
HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class BlobLimits:
    """`packet` is the largest MQTT packet the broker takes, `window` the chunks under way at a
    time.
    """

    packet: int = 128 * 1024
    window: int = 4
    largest: int = 64 * 2**20

    def __post_init__(self) -> None:
        if self.packet < HEADROOM + SMALLEST:
            raise BlobError(
                f"a packet limit of {self.packet} bytes is too small",
                f"{HEADROOM + SMALLEST} or more",
            )

    @property
    def chunk(self) -> int:
        return self.packet - HEADROOM

    def fits(self, payload: bytes) -> bool:
        """Whether the payload can travel as it is."""
        return len(payload) <= self.chunk


@dataclass(frozen=True)
class BlobDescriptor:
    """What stands in for a payload: its hash, its size, and how it is cut."""

    digest: str
    size: int
    chunk: int

    @property
    def chunks(self) -> int:
        return -(-self.size // self.chunk)

    def body(self) -> dict[str, Any]:
        """As it travels in a message of type `slip`, which adds the type it stands for (`of`)."""
        return {"digest": self.digest, "size": self.size, "chunk": self.chunk}

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> BlobDescriptor:
        """From the body of a decoded message; `BlobError` if it makes no sense."""
        digest, size, chunk = (body.get(name) for name in ("digest", "size", "chunk"))
        if not isinstance(digest, str) or not HEX.fullmatch(digest):
            raise BlobError("slip.digest: not a sha256 in hexadecimal")
        # `type`, not `isinstance`: True is an int, too.
        if type(size) is not int or type(chunk) is not int or size <= 0 or chunk <= 0:
            raise BlobError("slip: size and chunk are not whole numbers above 0")
        descriptor = cls(digest, size, chunk)
        if (chunk < SMALLEST and descriptor.chunks > 1) or descriptor.chunks > MOST_CHUNKS:
            raise BlobError(
                f"slip: {descriptor.chunks} chunks of {chunk} bytes are too many or too small"
            )
        return descriptor

    def length(self, index: int) -> int:
        """Bytes in a chunk."""
        return min(self.chunk, self.size - index * self.chunk)

    def whole(self) -> Ranges:
        return [(0, self.chunks - 1)]


def descriptor_message(envelope: Envelope, descriptor: BlobDescriptor) -> bytes:
    """The message that travels on the topic of the payload whose envelope this is."""
    from dataclasses import replace

    from protofleet import wire

    return wire.encode(replace(envelope, t="slip"), {**descriptor.body(), "of": envelope.t})


def ranges_of(indices: Iterable[int], most: int = 256) -> Ranges:
    """Rising numbers as runs, the first `most` of them."""
    runs: Ranges = []
    for index in indices:
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        elif len(runs) == most:
            break
        else:
            runs.append((index, index))
    return runs


def read_ranges(value: Any, chunks: int) -> Ranges:
    """`[[first, last], ...]` from a document; `BlobError` for anything that is not rising and
    within the payload.
    """
    runs: Ranges = []
    for pair in value if isinstance(value, list) else [None]:
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(n) is int for n in pair):
            raise BlobError("missing: not a list of [first, last]")
        first, last = pair
        if not (runs[-1][1] if runs else -1) < first <= last < chunks:
            raise BlobError(f"missing: [{first}, {last}] is not within {chunks} chunks, rising")
        runs.append((first, last))
    return runs
