"""What bodies looked like that were let in before: the next of the same layout is read without a
second walk.

A fleet's devices send the same parts round after round: only the numbers in the arrays change.
"""

# Theory of operation
#
# Decoding an upload in full is a walk over its headers (`strict.walk`), cbor2, and a look at every
# field (`parts`). For one and the same layout all of that comes out the same, except for the
# arrays. So the first upload of a layout is decoded in full and remembered as a `Template`: the
# bytes around its byte strings, and where each array lies. A body that agrees with a template in
# every byte around the strings is read by slicing.
#
# Why that is sound: the walk's verdict depends on all bytes of a body but the contents of its byte
# strings. Where those others are equal to the byte (they include every length, so the strings lie
# in the same places), the verdict is equal, and so is everything read from them: names, kinds,
# dtypes, dims. What the strings hold is not covered, and is checked every time by the values that
# are made of it, exactly as on the long way.
#
#   body                        what happens
#   length never seen           long way, then remembered
#   length seen, bytes around
#   the strings differ          long way, then remembered in its place
#   the same, other limits      long way: a verdict holds under the limits it was given under
#   the same                    short way
#   refused                     long way to the refusal; never remembered
#   rows in int8                long way, not remembered: two byte strings are one array there
#
# Templates are found by the body's length, one for each: a second layout of the same length takes
# the first one's place, which costs time and nothing else. There are at most `MOST` of them, so a
# stranger who sends ever new layouts fills no memory; he makes the others' uploads take the long
# way once more.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from cbor2 import CBORTag, dumps

from protofleet.errors import WireError
from protofleet.values.prototypes import HandedOver
from protofleet.wire.arrays import DTYPES, widened
from protofleet.wire.limits import Limits
from protofleet.wire.strict import BYTES, TEXT, header

MOST = 256  # layouts that are remembered
Span = tuple[int, int]


class ArraySlot(NamedTuple):
    """An array in a body: where its bytes are, and what they are."""

    field: str
    key: str | None  # its name, in a field of many arrays
    start: int
    dtype: np.dtype[Any]
    size: int
    dims: tuple[int, ...] | None  # None: as it is


class Template(NamedTuple):
    """All that bodies of one layout have in common."""

    limits: Limits  # they were walked under
    fixed: tuple[tuple[int, bytes], ...]  # what stands around the byte strings, and where
    # name, kind, fields of many arrays, arrays
    parts: tuple[tuple[str, str, tuple[str, ...], tuple[ArraySlot, ...]], ...]

    def read(self, data: bytes) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Name, kind and fields of every part."""
        for name, kind, maps, slots in self.parts:
            content: dict[str, Any] = {field: {} for field in maps}
            for field, key, start, dtype, size, dims in slots:
                array: Any = np.frombuffer(data, dtype, size, start)
                if dims is not None:
                    array = array.reshape(dims)
                if dtype.kind == "f":
                    # What numpy makes of a single number is a number, and no array to hand over.
                    array = HandedOver(widened(array)) if array.ndim else widened(array)
                if key is None:
                    content[field] = array
                else:
                    content[field][key] = array
            yield name, kind, content


BLANKS = {"agent": TEXT, "boot": TEXT, "seq": 0, "body": BYTES}  # with their major types


class EnvelopeTemplate(NamedTuple):
    """All that envelopes of one round have in common."""

    limits: Limits  # they were let in under
    before: tuple[tuple[bytes, str, int], ...]  # what stands before each blank, its name and type
    after: bytes
    common: Mapping[str, Any]  # of what was read

    @classmethod
    def of(
        cls, fields: Mapping[str, Any], envelope: Mapping[str, Any], limits: Limits
    ) -> EnvelopeTemplate:
        """From the fields of a message as they travel, and what was read from them."""
        before, fixed = [], bytes([0xA0 + len(fields)])
        for name in sorted(fields, key=lambda name: (len(name), name)):  # the order of `strict`
            fixed += dumps(name)
            if name in BLANKS:
                fixed += b"\xd8\x18" if name == "body" else b""
                before.append((fixed, name, BLANKS[name]))
                fixed = b""
            else:
                fixed += dumps(fields[name])
        common = {name: envelope[name] for name in envelope if name not in BLANKS}
        return cls(limits, tuple(before), fixed, common)

    def read(self, data: bytes) -> dict[str, Any] | None:
        """What stands in the blanks, if all around them is as remembered."""
        values: dict[str, Any] = {}
        at, end = 0, len(data) - len(self.after)
        for fixed, name, due in self.before:
            if not data.startswith(fixed, at):
                return None
            at += len(fixed)
            major, number = data[at] >> 5, data[at] & 31
            at += 1
            if number > 23:
                major, number, at = header(data, at - 1, "message")
            if major != due or at + number * (major != 0) > end:
                return None
            if major == 0:
                values[name] = number
                continue
            content = data[at : at + number]
            at += number
            if major == TEXT:
                if not 0 < number <= self.limits.text:
                    return None
                values[name] = content.decode()
            else:
                values[name] = content
        return values if at == end and data.endswith(self.after) else None


class Templates:
    """The newest template of each length."""

    def __init__(self) -> None:
        self._by_length: dict[int, Template] = {}
        self._envelope: EnvelopeTemplate | None = None

    def open(self, data: bytes, limits: Limits) -> tuple[Mapping[str, Any], dict[str, Any]] | None:
        """What is known of the envelope of this message, and what stands in its blanks."""
        known = self._envelope
        if known is None or known.limits is not limits or len(data) > limits.message:
            return None
        try:
            values = known.read(data)
        except (IndexError, ValueError, WireError):  # the long way says what is wrong
            return None
        return None if values is None else (known.common, values)

    def learn_envelope(
        self, fields: Mapping[str, Any], envelope: Mapping[str, Any], limits: Limits
    ) -> None:
        """Remember one that was let in."""
        self._envelope = EnvelopeTemplate.of(fields, envelope, limits)

    def __len__(self) -> int:
        return len(self._by_length)

    def find(self, data: bytes, limits: Limits) -> Template | None:
        """The template of this body, if one like it was let in under the same limits."""
        template = self._by_length.get(len(data))
        # `is not`: comparing seven numbers would cost more than it could save, and nobody changes
        # limits from message to message.
        if template is None or template.limits is not limits:
            return None
        for at, fixed in template.fixed:
            if not data.startswith(fixed, at):
                return None
        return template

    def learn(
        self, data: bytes, limits: Limits, raw: Mapping[str, Any], strings: Sequence[Span]
    ) -> None:
        """Remember a body that was let in, if it is all plain arrays; `strings` are the places of
        its byte strings.
        """
        spans = iter(strings)
        try:
            # Decoded maps keep the order of the bytes, so the n-th array is the n-th byte string.
            parts = tuple((name, *_slots(part, spans)) for name, part in raw.items())
        except _Unplain:
            return
        if len(self._by_length) >= MOST:
            self._by_length.clear()
        edges = [0, *(at for span in strings for at in span), len(data)]
        fixed = tuple((a, data[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True))
        self._by_length[len(data)] = Template(limits, fixed, parts)


class _Unplain(Exception):
    """A layout that is not worth remembering."""


def _slots(
    part: Mapping[str, Any], spans: Iterator[Span]
) -> tuple[str, tuple[str, ...], tuple[ArraySlot, ...]]:
    slots, maps = [], []
    for field, content in part.items():
        if field == "kind":
            continue
        if isinstance(content, dict) and field == "arrays":
            maps.append(field)
            slots += [_slot(field, key, array, next(spans)) for key, array in content.items()]
        else:
            slots.append(_slot(field, None, content, next(spans)))
    return part["kind"], tuple(maps), tuple(slots)


def _slot(field: str, key: str | None, array: Any, span: Span) -> ArraySlot:
    if not isinstance(array, CBORTag):  # rows in int8 with their scales
        raise _Unplain
    dims, typed = array.value if array.tag == 40 else (None, array)
    (start, end), dtype = span, DTYPES[typed.tag]
    shape = None if dims is None else tuple(dims)
    return ArraySlot(field, key, start, dtype, (end - start) // dtype.itemsize, shape)


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
