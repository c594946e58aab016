"""What bodies looked like that were let in before: the next of the same form is read without a
second walk.

Whether the door lets a body in depends on all of its bytes but the contents of its byte strings.
Where those others are the same to the byte, so is the answer; what the strings hold is checked by
the values that are made of it, every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from cbor2 import CBORTag, dumps

from protofleet.wire.arrays import DTYPES, widened
from protofleet.wire.limits import Limits

MOST = 256  # forms that are remembered
Span = tuple[int, int]


class ArraySlot(NamedTuple):
    """An array in a body: where its bytes are, and what they are."""

    field: str
    key: str | None  # its name, in a field of many arrays
    start: int
    end: int
    dtype: np.dtype[Any]
    dims: tuple[int, ...]


class Template(NamedTuple):
    """All that bodies of one form have in common."""

    limits: Limits  # they were walked under
    fixed: tuple[tuple[int, bytes], ...]  # what stands around the byte strings, and where
    parts: tuple[
        tuple[str, str, tuple[str, ...], tuple[ArraySlot, ...]], ...
    ]  # name, kind, fields of many arrays, arrays

    def read(self, data: bytes) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Name, kind and fields of every part."""
        for name, kind, maps, places in self.parts:
            content: dict[str, Any] = {field: {} for field in maps}
            for field, key, start, end, dtype, dims in places:
                array = widened(np.frombuffer(data[start:end], dtype).reshape(dims))
                if key is None:
                    content[field] = array
                else:
                    content[field][key] = array
            yield name, kind, content


class Templates:
    """The newest form of each length."""

    def __init__(self) -> None:
        self._known: dict[int, Template] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, data: bytes, limits: Limits) -> Template | None:
        """The form of this body, if one like it was let in under the same limits."""
        form = self._known.get(len(data))
        if form is None or form.limits is not limits:
            return None
        for at, there in form.fixed:
            if not data.startswith(there, at):
                return None
        return form

    def learn(
        self, data: bytes, limits: Limits, raw: Mapping[str, Any], strings: Sequence[Span]
    ) -> None:
        """Remember a body that was let in, if it is all plain arrays; `strings` are the places of
        its byte strings.
        """
        spans = iter(strings)
        try:
            parts = tuple((name, *_places(part, spans)) for name, part in raw.items())
        except _Unplain:
            return
        if len(self._known) >= MOST:
            self._known.clear()
        edges = [0, *(at for span in strings for at in span), len(data)]
        fixed = tuple((a, data[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True))
        self._known[len(data)] = Template(limits, fixed, parts)


class _Unplain(Exception):
    """A form that is not worth remembering."""


def _places(
    part: Mapping[str, Any], spans: Iterator[Span]
) -> tuple[str, tuple[str, ...], tuple[ArraySlot, ...]]:
    places, maps = [], []
    for field, content in part.items():
        if field == "kind":
            continue
        if isinstance(content, dict) and field == "arrays":
            maps.append(field)
            places += [_place(field, key, array, next(spans)) for key, array in content.items()]
        else:
            places.append(_place(field, None, content, next(spans)))
    return part["kind"], tuple(maps), tuple(places)


def _place(field: str, key: str | None, array: Any, span: Span) -> ArraySlot:
    if not isinstance(array, CBORTag):  # rows in int8 with their scales
        raise _Unplain
    dims, typed = array.value if array.tag == 40 else ((-1,), array)
    return ArraySlot(field, key, *span, DTYPES[typed.tag], tuple(dims))


# Receipts go the other way. There is one for every upload, and all that differs between most of
# them is the digest and the agent's name: to fill these in costs a twentieth of another walk
# through the encoder. So one receipt is encoded with blanks in the two places, and cut there.

HASH = 64  # characters of a sha256
BLANK = "\x00"  # printable names hold none


class ReceiptTemplate(NamedTuple):
    """An encoded receipt without the two texts that differ from device to device."""

    before: bytes
    between: bytes
    after: bytes

    @classmethod
    def of(cls, receipt: bytes, length: int) -> ReceiptTemplate:
        """From a receipt for `BLANK` texts: a digest, and an agent's name of so many bytes.

        The places are those of key and text together, and must be there exactly once: a name of one
        blank alone would be found in any whole number.
        """
        # Keys are sorted by length, then by bytes, so the body comes before the agent.
        before, rest = receipt.split(_field("digest", HASH))
        between, after = rest.split(_field("agent", length))
        # What stands before a text is its key and its length: all but the blanks.
        return cls(
            before + _field("digest", HASH)[:-HASH],
            between + _field("agent", length)[:-length],
            after,
        )

    def filled(self, digest: str, agent: bytes) -> bytes:
        """The bytes that the encoder would make."""
        return b"".join((self.before, digest.encode(), self.between, agent, self.after))


def _field(key: str, length: int) -> bytes:
    return dumps(key) + dumps(BLANK * length)
