"""An envelope as nearly all of them are, read in one go; whatever is unusual is None, and the
door's to judge.

What is read here the door lets in as well, and finds the same in it: a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import cbor2

from protofleet.wire.limits import Limits
from protofleet.wire.strict import BYTES, LEAST, MAP, TEXT

NUMBER = 0
KINDS = {
    **dict.fromkeys(("t", "fleet", "run", "agent", "boot", "method"), TEXT),
    **dict.fromkeys(("v", "epoch", "seq", "round"), NUMBER),
    **dict.fromkeys(("base", "body"), BYTES),
}
# Every key there is, as it is written and in the order of the wire.
KEYS = sorted(
    ((cbor2.dumps(name), name, kind) for name, kind in KINDS.items()), key=lambda known: known[0]
)
BODY = cbor2.dumps("body") + b"\xd8\x18"  # and tag 24, before the body
_BODY, _EPOCH = ([name for _, name, _ in KEYS].index(name) for name in ("body", "epoch"))
STRETCHES = {
    "before": KEYS[:_BODY],
    "after": KEYS[_BODY + 1 :],
    "device": KEYS[_BODY + 1 : _EPOCH],
    "run": KEYS[_EPOCH:],
}
EPOCH = cbor2.dumps("epoch")
LONG = 2048  # bytes before the body, or after it: more than texts of a usual length can fill
DUE = {"v", "t", "fleet", "body"}
ITEMS, NESTING = 2 + 2 * len(KEYS), 2  # what the door counts in an envelope


def read(data: bytes, limits: Limits) -> dict[str, Any] | None:
    """What stands in it by key, `base` as text, the body as bytes; all that is due is there, and no
    text is empty.
    """
    end = len(data)
    if (
        end > limits.message
        or limits.items < ITEMS
        or limits.nesting < NESTING
        or not data
        or data[0] >> 5 != MAP
    ):
        return None
    mark = data.find(BODY)
    try:
        n, start = _length(data, mark + len(BODY), BYTES)
    except (IndexError, KeyError):
        return None
    rest = start + n
    if not 0 < mark < LONG or not rest <= end < rest + LONG:
        return None
    before, after = _known(data[1:mark], "before", limits.text), _after(data[rest:], limits.text)
    if before is None or after is None:
        return None
    found = {**before, **after, "body": data[start:rest]}
    return found if len(found) == data[0] & 31 and found.keys() >= DUE else None


def _after(data: bytes, longest: int) -> Mapping[str, Any] | None:
    """What follows a body: from the epoch on it is the same for all who answer in a round."""
    cut = data.find(EPOCH)
    if cut >= 0:
        device, run = _pairs(data[:cut], "device", longest), _known(data[cut:], "run", longest)
        if device is not None and run is not None:
            return {**device, **run}
    return _pairs(data, "after", longest)


def _length(data: bytes, at: int, kind: int) -> tuple[int, int]:
    """The number in a head of this kind, written as short as can be, and where the next byte is; or
    `KeyError`.
    """
    head = data[at]
    n = head & 31
    if head >> 5 != kind:
        raise KeyError(kind)
    if n <= 23:
        return n, at + 1
    end = at + 1 + (1 << (n - 24))
    found = int.from_bytes(data[at + 1 : end], "big")
    if found < LEAST[n]:
        raise KeyError(n)
    return found, end


def _pairs(data: bytes, stretch: str, longest: int) -> Mapping[str, Any] | None:
    """Keys and values of this stretch of an envelope, in the order of the wire, and nothing
    else.
    """
    found: dict[str, Any] = {}
    at, end = 0, len(data)
    try:
        for key, name, kind in STRETCHES[stretch]:
            if not data.startswith(key, at):
                continue
            n, at = _length(data, at + len(key), kind)
            if kind == NUMBER:
                found[name] = n
                continue
            start, at = at, at + n
            if kind == BYTES and n == 32:
                found[name] = data[start:at].hex()
            elif kind == TEXT and 0 < n <= longest:
                found[name] = data[start:at].decode()
            else:
                return None
    except (IndexError, KeyError, UnicodeDecodeError):
        return None
    return found if at == end else None


_known = lru_cache(maxsize=256)(_pairs)
