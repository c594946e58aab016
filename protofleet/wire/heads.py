"""An envelope as nearly all of them are, read in one go; whatever is unusual is None, and the door's to judge.

What is read here the door lets in as well, and finds the same in it: a test holds the two together.
"""

from __future__ import annotations

from typing import Any

import cbor2

from protofleet.wire.door import BYTES, LEAST, MAP, TEXT
from protofleet.wire.limits import Limits

NUMBER = 0
KINDS = {
    **dict.fromkeys(("t", "fleet", "run", "agent", "boot", "method"), TEXT),
    **dict.fromkeys(("v", "epoch", "seq", "round"), NUMBER),
    **dict.fromkeys(("base", "body"), BYTES),
}
# Every key there is, as it is written and in the order of the wire.
KEYS = sorted(((cbor2.dumps(name), name, kind) for name, kind in KINDS.items()), key=lambda known: known[0])
EMBEDDED = b"\xd8\x18"  # tag 24, before the body
DUE = {"v", "t", "fleet", "body"}
ITEMS, NESTING = 2 + 2 * len(KEYS), 2  # what the door counts in an envelope


def read(  # noqa: PLR0911, PLR0912 - one loop, without calls
    data: bytes, limits: Limits
) -> dict[str, Any] | None:
    """What stands in it by key, `base` as text, the body as bytes; all that is due is there, and no text is empty."""
    end = len(data)
    if end > limits.message or limits.items < ITEMS or limits.nesting < NESTING or not data or data[0] >> 5 != MAP:
        return None
    found: dict[str, Any] = {}
    at = 1
    try:
        for key, name, kind in KEYS:
            if not data.startswith(key, at):
                continue
            at += len(key)
            if name == "body":
                if not data.startswith(EMBEDDED, at):
                    return None
                at += 2
            head = data[at]
            at += 1
            if head >> 5 != kind:
                return None
            n = head & 31
            if n > 23:
                size = 1 << (n - 24)
                least, n = LEAST[n], int.from_bytes(data[at : at + size], "big")
                at += size
                if n < least:
                    return None
            if kind == NUMBER:
                found[name] = n
                continue
            start, at = at, at + n
            if name == "body":
                found[name] = data[start:at]
            elif kind == BYTES and n == 32:
                found[name] = data[start:at].hex()
            elif kind == TEXT and 0 < n <= limits.text:
                found[name] = data[start:at].decode()
            else:
                return None
    except (IndexError, KeyError, UnicodeDecodeError):
        return None
    return found if at == end and len(found) == data[0] & 31 and found.keys() >= DUE else None
