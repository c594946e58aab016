"""The strict decoder: every byte from outside is walked here before a general CBOR decoder may look
at it.

`walk` decides, `load` makes Python values of what it let pass, `dump` is the way out through the
same walk. Either a value or a `WireError`, and nothing else ever. `flat` reads what envelopes look
like in one go.
"""

# Theory of operation
#
# cbor2 alone is too friendly: it takes duplicate keys (two readers of one message may see two
# different values), compiles regular expressions (tag 35), builds cycles (tags 28 and 29), and
# believes a header of nine bytes that announces 2⁶⁰ items. So one loop over the headers, which
# allocates nothing but a short stack, first makes sure that the bytes are of the small subset of
# CBOR (RFC 8949) that we speak:
#
#   major type    allowed
#   0, 1 numbers  what fits 64 signed bits
#   2 bytes       any length; the contents are not looked at here
#   3 text        up to `limits.text` bytes (that they are UTF-8, cbor2 checks)
#   4 list        of anything
#   5 map         keys are text, in ascending order of their encoded bytes
#   6 tag         24 around bytes; 40 around a list; 64, 72, 79, 84, 85 around bytes
#   7 simple      false, true, null, floats of 16, 32 and 64 bits
#
# Every length is definite, every number in a header is in its shortest form, one item fills all of
# the bytes. So a value has one encoding, but for the width of a float. (No hash depends on that
# width: what is hashed are bytes as they came, or what our own encoder makes of a value.)
#
# Key order is what makes uniqueness free: what only ever ascends cannot repeat, so the walk keeps
# one key per open map and not a set. The header of a text begins with its length, so the order of
# encoded bytes is "shorter first, then by letters": the order of cbor2's canonical form as well.
#
# Bounds, each checked before anything is believed:
#
#   limits.message   all bytes
#   limits.nesting   lists, maps and tags inside each other: bounds cbor2's recursion
#   limits.items     items in all: bounds how many Python objects the bytes can become
#   what is there    a container that claims more items than bytes follow is refused at its header,
#                    as is a string that claims more bytes: every item takes at least one
#
# A refusal is a `WireError` of one line: the path of what was read (`upload.parts`), the byte, what
# is wrong. It is sent back in receipts and stands in logs, so what a stranger wrote gets into it
# short and printable (`shown`) or not at all.
#
# Traps. The walk says nothing about what the values mean: a tag 84 may hold an odd number of bytes,
# a float may be a NaN, a tag may stand where nobody wants one. `arrays`, `parts` and `messages`
# check all that. `templates` lets a body pass without a walk if it differs from one that was walked
# only within byte strings; that is sound only as long as nothing here depends on their contents.
#
# There is an envelope around every upload, a map of few short fields, and the walk over it costs
# more than cbor2 and all of the decoder's other work on it. `flat` is that walk for such maps
# alone, and makes the values on its way. It refuses nothing: whatever it does not know at once to
# be right is left to `load`, which knows why.

from __future__ import annotations

from typing import Any

import cbor2

from protofleet.errors import WireError
from protofleet.wire.limits import Limits

BYTES, TEXT, LIST, MAP, TAG, SIMPLE = 2, 3, 4, 5, 6, 7  # major types; 0 and 1 are whole numbers
# Allowed tags and the major type each must hold: embedded CBOR, multi-dimensional array, typed
# arrays.
TAGS = {24: BYTES, 40: LIST, 64: BYTES, 72: BYTES, 79: BYTES, 84: BYTES, 85: BYTES}
# false, true, null, floats of 16, 32 and 64 bits
ALLOWED_SIMPLE = frozenset({0xF4, 0xF5, 0xF6, 0xF9, 0xFA, 0xFB})
# The smallest number that needs a header of this length.
LEAST = {24: 24, 25: 2**8, 26: 2**16, 27: 2**32}


def walk(  # noqa: PLR0912, PLR0915 - one loop, without calls
    data: bytes, limits: Limits, where: str, strings: list[tuple[int, int]] | None = None
) -> None:
    """Return if the bytes are one deterministic CBOR item within the limits, else raise
    `WireError`.

    Where the contents of its byte strings begin and end is added to `strings`.
    """
    end = len(data)
    if end > limits.message:
        raise WireError(f"{where}: {end} bytes, at most {limits.message} are allowed")
    at, items, nesting = 0, 1, 0
    # Items still to come in the innermost container, and the last key if that is a map (else None).
    remaining, key = 1, None
    outer: list[tuple[int, bytes | None]] = []  # the same two of the containers around it
    while remaining or nesting:
        if not remaining:
            remaining, key = outer.pop()
            nesting -= 1
            continue
        start = at
        # Most headers are one byte or two, and calls are dear here: everything that comes or goes
        # passes this loop. Past the end stands a simple value, which only `_header` judges.
        head = data[at] if at < end else SIMPLE << 5
        major, n = head >> 5, head & 31
        if n < 24 and major != SIMPLE:
            at += 1
        elif n == 24 and major != SIMPLE and at + 1 < end and data[at + 1] >= 24:
            n = data[at + 1]
            at += 2
        else:
            major, n, at = header(data, at, where)
        remaining -= 1
        # A map of n pairs has 2n items: before a key an odd number of them is still to come.
        is_key = key is not None and remaining & 1
        if is_key and major != TEXT:
            raise _refused(where, start, "a map key is not text")
        if major in (BYTES, TEXT):
            at += n
            if at > end:
                raise _refused(where, start, f"{n} bytes claimed where {end - at + n} are left")
            if major == BYTES:
                if strings is not None:
                    strings.append((at - n, at))
            elif n > limits.text:
                raise _refused(
                    where, start, f"text of {n} bytes, at most {limits.text} are allowed"
                )
            if is_key:
                last, key = key, data[start:at]
                if last is not None and key <= last:  # what only ever ascends cannot repeat
                    raise _refused(
                        where, start, "duplicate key" if key == last else "keys out of order"
                    )
        elif LIST <= major <= TAG:
            outer.append((remaining, key))
            nesting += 1
            if nesting > limits.nesting:
                raise _refused(where, start, f"nested deeper than {limits.nesting}")
            # every encoded key sorts after the empty string
            remaining, key = (2 * n, b"") if major == MAP else (n, None)
            if major == TAG:
                if n not in TAGS:
                    raise _refused(where, at, f"tag {n} is not allowed")
                if at < end and data[at] >> 5 != TAGS[n]:
                    raise _refused(where, at, f"tag {n} holds the wrong kind of item")
                remaining = 1
            if remaining > end - at:
                raise _refused(
                    where, at, f"{remaining} items claimed where {end - at} bytes are left"
                )
            items += remaining
            if items > limits.items:
                raise WireError(f"{where}: more than {limits.items} items")
    if at != end:
        raise _refused(where, at, f"{end - at} bytes after the end")


def header(data: bytes, at: int, where: str) -> tuple[int, int, int]:
    """An item's major type, the number in its header, and where the header ends."""
    start = at
    if at >= len(data):
        raise _refused(where, start, "the bytes end too early")
    head = data[at]
    major, n = head >> 5, head & 31
    at += 1
    if n > 23:
        if n > 27:
            raise _refused(
                where, start, "indefinite length" if n == 31 else f"reserved header 0x{head:02x}"
            )
        least, size = LEAST[n], 1 << (n - 24)
        at += size
        if at > len(data):
            raise _refused(where, start, "the bytes end too early")
        n = int.from_bytes(data[at - size : at], "big")
        if n < least and major != SIMPLE:
            raise _refused(where, start, f"{n} is not in its shortest form")
    if major < BYTES and n >= 2**63:
        raise _refused(where, start, "a whole number does not fit 64 signed bits")
    if major == SIMPLE and head not in ALLOWED_SIMPLE:
        raise _refused(where, start, f"simple value 0x{head:02x} is not allowed")
    return major, n, at


def flat(data: bytes, limits: Limits) -> dict[str, Any] | None:
    """What `load` makes of a map of short texts, numbers from 0 up and byte strings, bare or under
    tag 24; None for all other bytes, good or bad.
    """
    pairs = data[0] - 0xA0 if data else -1
    room = limits.items > 3 * pairs and limits.nesting > 1 and limits.text > 22
    if not 0 <= pairs < 24 or not room or len(data) > limits.message:
        return None
    fields: dict[str, Any] = {}
    at, last = 1, b""
    try:
        for _ in range(pairs):
            begin, at = at, at + data[at] - 0x5F  # a header of one byte, and the text
            key = data[begin:at]
            if not 0x60 <= key[0] <= 0x77 or key <= last:
                return None
            last = key
            fields[key[1:].decode()], at = _flat_value(data, at, limits)
    except (IndexError, ValueError, WireError):
        return None
    return fields if at == len(data) else None  # what ran past the end is not what it seemed


def _flat_value(data: bytes, at: int, limits: Limits) -> tuple[Any, int]:
    """A value of such a map, and where it ends; `ValueError` for anything else."""
    embedded = data[at] == 0xD8 and data[at + 1] == 24
    at += 2 if embedded else 0
    major, number = data[at] >> 5, data[at] & 31
    at += 1
    if number > 23:
        _, number, at = header(data, at - 1, "message")
    content: Any
    if major == BYTES:
        content, at = data[at : at + number], at + number
        return (cbor2.CBORTag(24, content) if embedded else content), at
    if major == TEXT and not embedded and number <= limits.text:
        return data[at : at + number].decode(), at + number
    if major == 0 and not embedded:
        return number, at
    raise ValueError("the long way")


def load(
    data: bytes, limits: Limits, where: str, strings: list[tuple[int, int]] | None = None
) -> Any:
    """Walk the bytes, then let cbor2 make Python values of them."""
    walk(data, limits, where, strings)
    try:
        # One level more than the walk allows, so that where the two count differently the walk
        # decides.
        depth = limits.nesting + 1
        return cbor2.loads(
            data, allow_indefinite=False, allow_duplicate_keys=False, max_depth=depth
        )
    except Exception as error:  # whatever it is, the bytes are at fault: nothing else went in
        raise WireError(f"{where}: {_one_line(error)}") from error


def dump(value: object, limits: Limits, where: str) -> bytes:
    """Deterministic bytes that `load` accepts under the same limits."""
    data = pack(value, where)
    walk(data, limits, where)
    return data


def pack(value: object, where: str) -> bytes:
    """Deterministic bytes, without limits: what content hashes are made of."""
    try:
        return cbor2.dumps(value, canonical=True)
    except Exception as error:  # text that is not Unicode, objects that CBOR has no form for
        raise WireError(f"{where}: {_one_line(error)}") from error


def shown(name: str) -> str:
    """A name from outside as an error may print it: short, on one line."""
    return name if len(name) <= 64 and name.isprintable() else ascii(name)[:64]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _refused(where: str, at: int, words: str) -> WireError:
    return WireError(f"{where}: byte {at}: {words}")
