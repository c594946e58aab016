"""COSE_Sign1 (RFC 9052) with Ed25519: one signature over one content, in bytes that have one form.

`sign` makes it, `read` takes it apart, `verify` says whether it holds; what is wrong is one
`TrustError`. No key is made or kept here.
"""

# Theory of operation
#
# Why by hand: of the libraries on PyPI one does not decode under the cbor2 that we use, the other
# pins an older one. What is needed of RFC 9052 is small, and held to its own examples and to those
# of the COSE working group (tests/data/cose).
#
# A signature is a tagged list of four:
#
#     18([ protected: bytes, unprotected: map, payload: bytes or null, signature: bytes ])
#
# and what is signed is another list that nobody sends:
#
#     ["Signature1", protected, external_aad, payload]
#
# The protected header is a map in a byte string, so it is signed as it travelled. `external_aad`
# is what both ends know without being told: here the topic, so that what was said in one place
# means nothing in another. A payload of null is a content that travels beside the signature.
#
#   of RFC 9052              here
#   tag 18                   must be there: bytes say what they are
#   alg (label 1)            EdDSA (−8) in the protected header, or the signature does not hold:
#                            an algorithm is never taken from where nobody signed it
#   crit (label 2)           refused: nothing critical is understood that is not in this table
#   labels                   whole numbers; values are whole numbers, bytes or text
#   unprotected header       read, and believed by nobody
#   anything else in CBOR    refused: longer forms of a number, indefinite lengths, a label twice
#
# Ed25519 signs each content in one way only, and `cryptography` refuses a signature in another
# form (RFC 8032, 5.1.7: S below the order). So bytes that were changed anywhere, unprotected
# header included (`sealing` wants it empty), are other bytes or no signature.
#
# Everything is bounded before it is read: a header has at most HEADER bytes, and what a length
# claims must be there. Nothing here calls a general CBOR decoder.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protofleet.errors import TrustError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

ALGORITHM, CRITICAL, KEY_ID = 1, 2, 4  # labels of RFC 9052, 3.1
EDDSA = -8
SIZE = 64  # bytes of an Ed25519 signature
HEADER = 256  # bytes that a header may have
HEAD = b"\xd2\x84"  # tag 18, a list of four: how every signature begins
NULL = 0xF6
UNSIGNED, NEGATIVE, BYTES, TEXT, LIST, MAP = 0, 1, 2, 3, 4, 5  # major types
LEAST = {24: 24, 25: 2**8, 26: 2**16, 27: 2**32}  # the smallest number of a header's length
CONTEXT = b"\x84\x6aSignature1"  # a list of four, and its first

Value = int | bytes | str


@dataclass(frozen=True)
class Sign1:
    """A signature taken apart; nothing in it is true yet."""

    protected: bytes
    headers: Mapping[int, Value]  # what is in `protected`
    unprotected: Mapping[int, Value]
    payload: bytes | None
    signature: bytes


def sign(
    key: Ed25519PrivateKey,
    headers: Mapping[int, Value],
    external_aad: bytes,
    content: bytes,
    *,
    detached: bool = False,
) -> bytes:
    """A signature over this content; detached, the content is not in it."""
    protected = _map({ALGORITHM: EDDSA, **headers})
    signature = key.sign(structure(protected, external_aad, content))
    payload = bytes([NULL]) if detached else _string(content)
    return b"".join((HEAD, _string(protected), b"\xa0", payload, _string(signature)))


def structure(protected: bytes, external_aad: bytes, content: bytes) -> bytes:
    """What is signed: the Sig_structure of RFC 9052, 4.4."""
    protected = b"" if protected == b"\xa0" else protected  # as 4.4 has it for an empty map
    return b"".join((CONTEXT, _string(protected), _string(external_aad), _string(content)))


def read(data: bytes) -> tuple[Sign1, int]:
    """A signature at the beginning of these bytes, and where it ends."""
    if not data.startswith(HEAD):
        raise TrustError("signature: no COSE_Sign1 (tag 18 and a list of four)")
    protected, at = _take(data, 2)
    if len(protected) > HEADER:
        raise TrustError(f"signature: a header of {len(protected)} bytes, at most {HEADER}")
    headers, end = _headers(protected, 0) if protected else ({}, 0)
    if end != len(protected):
        raise TrustError("signature: bytes after the protected header")
    unprotected, at = _headers(data, at)
    payload: bytes | None = None
    if data[at : at + 1] == b"\xf6":
        at += 1
    else:
        payload, at = _take(data, at)
    signature, at = _take(data, at)
    return Sign1(protected, headers, unprotected, payload, signature), at


def verify(
    signed: Sign1, key: Ed25519PublicKey, external_aad: bytes, content: bytes | None = None
) -> bytes:
    """The content, if the signature holds; one that travelled beside it is given here."""
    from cryptography.exceptions import InvalidSignature

    algorithm = signed.headers.get(ALGORITHM)
    if algorithm != EDDSA or type(algorithm) is not int:
        raise TrustError(f"signature: algorithm {_shown(algorithm)} is not spoken here, only EdDSA")
    if (signed.payload is None) == (content is None):
        words = "none is beside it" if content is None else "another is beside it"
        raise TrustError(f"signature: its content is not clear, {words}")
    payload = signed.payload if content is None else content
    assert payload is not None  # one of the two is there
    if len(signed.signature) != SIZE:
        raise TrustError(f"signature: {len(signed.signature)} bytes where {SIZE} are due")
    try:
        key.verify(signed.signature, structure(signed.protected, external_aad, payload))
    except InvalidSignature:
        raise TrustError("signature: it does not hold") from None
    return payload


def _headers(data: bytes, at: int) -> tuple[dict[int, Value], int]:
    """A map of headers, in the one order that it may have."""
    start = at
    major, count, at = _head(data, at)
    if major != MAP or count > HEADER:
        raise TrustError("signature: a header is no map")
    headers: dict[int, Value] = {}
    last = b""
    for _ in range(count):
        begin = at
        label, at = _value(data, at)
        encoded = data[begin:at]
        if type(label) is not int:
            raise TrustError("signature: a header's label is no whole number")
        if encoded <= last:
            raise TrustError("signature: headers out of order, or one twice")
        last = encoded
        headers[label], at = _value(data, at)
        if at - start > HEADER:
            raise TrustError(f"signature: a header of more than {HEADER} bytes")
    if CRITICAL in headers:
        raise TrustError("signature: it has critical headers, none is understood here")
    return headers, at


def _value(data: bytes, at: int) -> tuple[Value, int]:
    major, n, after = _head(data, at)
    if major == UNSIGNED:
        return n, after
    if major == NEGATIVE:
        return -1 - n, after
    if major == BYTES:
        return _take(data, at)
    if major == TEXT:
        end = after + n
        if end > len(data) or n > HEADER:
            raise TrustError("signature: the bytes end too early")
        try:
            return data[after:end].decode(), end
        except UnicodeDecodeError:
            raise TrustError("signature: a header's text is not UTF-8") from None
    raise TrustError("signature: a header is neither number, bytes nor text")


def _take(data: bytes, at: int) -> tuple[bytes, int]:
    """A byte string."""
    # The usual ones are short: their header is one byte, or two.
    head = data[at] if at < len(data) else 0
    if 0x40 <= head < 0x58:
        start, end = at + 1, at + 1 + (head & 31)
    else:
        major, n, start = _head(data, at)
        if major != BYTES:
            raise TrustError("signature: no bytes where bytes are due")
        end = start + n
    if end > len(data):
        raise TrustError("signature: the bytes end too early")
    return data[start:end], end


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """An item's major type, its number in the shortest form, and where its header ends."""
    if at >= len(data):
        raise TrustError("signature: the bytes end too early")
    major, n = data[at] >> 5, data[at] & 31
    at += 1
    if n < 24:
        return major, n, at
    if n > 27:
        raise TrustError("signature: indefinite length, or a reserved header")
    size = 1 << (n - 24)
    number = int.from_bytes(data[at : at + size], "big")
    if at + size > len(data) or number < LEAST[n] or number >= 2**63:
        raise TrustError("signature: a number is cut off, too large, or not in its shortest form")
    return major, number, at + size


def _map(headers: Mapping[int, Value]) -> bytes:
    pairs = sorted((_item(label), _item(value)) for label, value in headers.items())
    return _number(MAP, len(pairs)) + b"".join(label + value for label, value in pairs)


def _item(value: Value) -> bytes:
    if isinstance(value, bytes):
        return _string(value)
    if isinstance(value, str):
        text = value.encode()
        return _number(TEXT, len(text)) + text
    return _number(UNSIGNED, value) if value >= 0 else _number(NEGATIVE, -1 - value)


def _string(data: bytes) -> bytes:
    return _number(BYTES, len(data)) + data


def _number(major: int, n: int) -> bytes:
    if n < 24:
        return bytes((major << 5 | n,))
    for code, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if n < 256**size:
            return bytes((major << 5 | code,)) + n.to_bytes(size, "big")
    raise TrustError("signature: a number is too large")


def _shown(value: Any) -> str:
    return repr(value)[:32] if isinstance(value, (int, str)) else "of another kind"
