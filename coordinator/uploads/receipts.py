"""Plain receipts, one an upload: encoded once, and then only the two places that differ are filled
in.
"""

from __future__ import annotations

from functools import lru_cache

from protofleet import wire
from protofleet.wire import Envelope

HASH = 64  # characters of a sha256


def document(digest: str, round: int, status: str) -> dict[str, object]:
    """What every receipt says."""
    return {"digest": digest, "round": round, "status": status}


def plain(
    fleet: str, run: str, epoch: int, method: str, agent: str, round: int, digest: str, status: str
) -> bytes:
    """The bytes that `wire.encode` would make, without walking them again."""
    name = agent.encode()
    before, between, after = _around(fleet, run, epoch, method, round, status, len(name))
    return b"".join((before, digest.encode(), between, name, after))


@lru_cache(maxsize=256)
def _around(
    fleet: str, run: str, epoch: int, method: str, round: int, status: str, length: int
) -> tuple[bytes, bytes, bytes]:
    """What stands around digest and name: two receipts that differ in nothing else show where they
    are.
    """
    one, two = (
        wire.encode(
            Envelope(
                t="receipt",
                fleet=fleet,
                run=run,
                epoch=epoch,
                agent=letter * length,
                round=round,
                method=method,
            ),
            document(letter * HASH, round, status),
        )
        for letter in "ab"
    )
    differ = [at for at, (here, there) in enumerate(zip(one, two, strict=True)) if here != there]
    digest, name = differ[0], differ[HASH]
    return one[:digest], one[digest + HASH : name], one[name + length :]
