"""The fleet's keys: what the coordinator signs with, listed under the signature of the fleet's
authority.

The list has a version; a device goes by the highest that it has seen, so a key that was taken out
does not come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protofleet.errors import TrustError, WireError
from protofleet.trust import cose, keys
from protofleet.wire import strict
from protofleet.wire.limits import Limits

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

MOST = 4  # keys at a time: the one in use, and those that are on their way in or out
LIMITS = Limits(message=4096, items=64)


@dataclass(frozen=True)
class Ring:
    """The fleet's keys at one time, the one that signs first."""

    fleet: str
    version: int
    keys: tuple[bytes, ...]

    def public(self) -> Mapping[bytes, Ed25519PublicKey]:
        """By the names that signatures have for them."""
        return {keys.name(raw): keys.public(raw) for raw in self.keys}


def signed(ring: Ring, authority: Ed25519PrivateKey, topic: str) -> bytes:
    """As it travels, and is kept."""
    document = {"fleet": ring.fleet, "version": ring.version, "keys": list(ring.keys)}
    content = strict.dump(document, LIMITS, "ring")
    return cose.sign(authority, {}, topic.encode(), content)


def read(data: bytes, authority: Ed25519PublicKey, topic: str, fleet: str) -> Ring:
    """The list, if it is this fleet's and its authority's."""
    signature, end = cose.read(data)
    if end != len(data):
        raise TrustError("ring: bytes after its end")
    content = cose.verify(signature, authority, topic.encode())
    try:
        document = strict.load(content, LIMITS, "ring")
    except WireError as error:
        raise TrustError(error.words) from None
    fields = document if isinstance(document, dict) else {}
    version, listed = fields.get("version"), fields.get("keys")
    if fields.get("fleet") != fleet:
        raise TrustError("ring: it is of another fleet")
    if type(version) is not int or not isinstance(listed, list) or not 0 < len(listed) <= MOST:
        raise TrustError("ring: no version, or no keys")
    if not all(isinstance(raw, bytes) and len(raw) == keys.SIZE for raw in listed):
        raise TrustError("ring: a key is not 32 bytes")
    return Ring(fleet, version, tuple(listed))
