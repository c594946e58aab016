"""Messages under a signature: made by whoever speaks, opened by whoever listens.

`Signer.seal` puts a signature before a message, `Gate.open` takes it off again and says whether
the message may be believed.
"""

# Theory of operation
#
# On the wire a signed message is a signature (COSE_Sign1, `cose`) and after it the message, byte
# for byte as it is without one. The first byte tells them apart: a signature begins with tag 18, a
# message is a map. The signature's content is the sha256 of the message, and says so; to sign and
# to verify costs the same for a small message as for a large one, and no decoder has to copy a
# message out of another.
#
#   protected header    what it says
#   1   alg             EdDSA
#   4   kid             which key: eight bytes of its sha256
#   258 hashed          −16: what is signed is the sha256 of the content
#   −65537              the message's number (`sequence`)
#   −65538              its lane; absent for the daemon's
#   external_aad        the topic, which nobody sends twice
#
# What is too large for a packet travels as a descriptor with the payload's sha256, and the
# descriptor is signed: chunks need no signature. Chunks and empty payloads (which take a retained
# message back) are never signed.
#
# Who may speak unsigned is the reader's policy, for each speaker:
#
#   the speaker's keys    policy      unsigned       signed
#   some                  any         refused        taken, if it holds and its number is new
#   none                  required    refused        refused: nobody's key
#   none                  not         taken          taken, as if it were unsigned
#
# So whoever has a key must use it wherever signatures mean anything: a signature that somebody
# takes off does not leave a message that is let in for want of one.
#
# The order of checks is that of their cost, and nothing is remembered before the signature holds.
# A refusal is one `TrustError`, in one line, and has no answer: an answer would go to whoever is
# meant, and not to whoever spoke.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

from protofleet.errors import TrustError
from protofleet.mqtt.topics import Proof
from protofleet.trust import cose, keys
from protofleet.trust.sequence import Numbers, Sequence

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

HASHED, SHA256 = 258, -16  # COSE hash envelope: the content is a hash, made by this algorithm
NUMBER, LANE = -65537, -65538  # labels for private use
LONGEST = 512  # bytes of a signature before a message


class Sealed(NamedTuple):
    """A signature and what stands behind it; nothing in it is true yet."""

    signature: cose.Sign1
    key: bytes
    number: int
    lane: int
    proof: bytes  # the signature's bytes
    message: bytes


class Unsealed(NamedTuple):
    """A message that may be believed, and what proves it; no proof where none was needed."""

    message: bytes
    proof: Proof | None = None


@dataclass(frozen=True)
class Signer:
    """Speaks in one name, on one lane."""

    key: Ed25519PrivateKey
    sequence: Sequence

    @cached_property
    def name(self) -> bytes:
        """What its signatures call its key; to derive the key anew costs half a signature."""
        return keys.name(keys.raw(self.key.public_key()))

    def seal(self, topic: str, message: bytes) -> bytes:
        """The message, under a signature of its own; each call makes another one."""
        headers: dict[int, cose.Value] = {
            cose.KEY_ID: self.name,
            HASHED: SHA256,
            NUMBER: self.sequence.next(),
        }
        if self.sequence.lane:
            headers[LANE] = self.sequence.lane
        digest = sha256(message).digest()
        return cose.sign(self.key, headers, topic.encode(), digest, detached=True) + message


def is_sealed(payload: bytes) -> bool:
    """Whether these bytes begin with a signature."""
    return payload.startswith(cose.HEAD)


def stripped(payload: bytes) -> bytes:
    """The message behind a signature that nobody here can hold to anything."""
    return taken_apart(payload).message if is_sealed(payload) else payload


def taken_apart(payload: bytes) -> Sealed:
    """A signed message; `TrustError` if its signature has another form than ours."""
    signature, end = cose.read(payload)
    headers = signature.headers
    key, number, lane = headers.get(cose.KEY_ID), headers.get(NUMBER), headers.get(LANE, 0)
    if signature.unprotected or signature.payload is not None or end > LONGEST:
        raise TrustError("signature: it has more in it than one over a message here")
    if headers.get(HASHED) != SHA256 or not isinstance(key, bytes):
        raise TrustError("signature: it does not say of what, or by whom")
    if type(number) is not int or number < 0 or type(lane) is not int:
        raise TrustError("signature: it has no number")
    return Sealed(signature, key, number, lane, payload[:end], payload[end:])


def check(sealed: Sealed, key: Ed25519PublicKey, topic: str) -> Proof:
    """What proves that this key said this in this place, or `TrustError`."""
    digest = sha256(sealed.message).digest()
    cose.verify(sealed.signature, key, topic.encode(), digest)
    return Proof(sealed.proof, digest.hex())


class KeyBook(Protocol):
    """What a reader knows of those who speak."""

    def keys(self, speaker: str) -> Mapping[bytes, Ed25519PublicKey]:
        """A speaker's keys that are in force, by their names."""

    def required(self, speaker: str) -> bool:
        """Whether one without keys is refused."""


class Gate:
    """Everything that arrives passes here, where signatures mean anything."""

    def __init__(self, book: KeyBook, numbers: Numbers) -> None:
        self.book, self.numbers = book, numbers

    def open(self, speaker: str, topic: str, place: str, payload: bytes) -> Unsealed:
        """The message, if it may be believed to be this speaker's; numbers rise by `place`."""
        trusted = self.book.keys(speaker)
        if not is_sealed(payload):
            if trusted or self.book.required(speaker):
                raise TrustError("not signed")
            return Unsealed(payload)
        sealed = taken_apart(payload)
        key = trusted.get(sealed.key)
        if key is None:
            if trusted or self.book.required(speaker):
                raise TrustError(f"signature: key {sealed.key.hex()} is not {_whose(speaker)}")
            return Unsealed(sealed.message)
        under = self.numbers.check(speaker, place, sealed.lane, sealed.number)
        proof = check(sealed, key, topic)
        self.numbers.take(under, sealed.number)
        return Unsealed(sealed.message, proof)


def _whose(speaker: str) -> str:
    return f"that of {speaker}" if speaker else "the fleet's"
