"""Secrets that two devices share, and the masks made of them: X25519 (RFC 7748), HKDF-SHA256
(RFC 5869), ChaCha20 and ChaCha20-Poly1305 (RFC 8439), all of `cryptography`.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from protofleet.errors import FusionError
from protofleet.util.extras import check_installed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

MASKS, BOXES = b"protofleet mask", b"protofleet box"
KEY = 32


def public_of(secret: bytes) -> bytes:
    """The public half of a key."""
    check_installed("cryptography", "privacy", "masked sums")
    from cryptography.hazmat.primitives import serialization

    raw, form = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    return _private(secret).public_key().public_bytes(raw, form)


@dataclass(frozen=True)
class Pair:
    """A device's secret, its public half, and the other's."""

    secret: bytes
    own: bytes
    other: bytes


def agreed_key(pair: Pair, session: bytes, purpose: bytes) -> bytes:
    """What the two of a pair alone know, for one purpose of one session."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    try:
        other = X25519PublicKey.from_public_bytes(pair.other)
        shared = _private(pair.secret).exchange(other)
    except ValueError as error:  # of small order, or not a key at all
        raise FusionError("a device's key for masks is none") from error
    # Both ends name the two keys in one order: the secret is bound to who they are.
    return derived(shared, session, purpose + b"".join(sorted((pair.own, pair.other))))


def derived(secret: bytes, salt: bytes, info: bytes, length: int = KEY) -> bytes:
    """HKDF with SHA-256."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length, salt, info).derive(secret)


def stream(key: bytes, size: int) -> bytes:
    """So many uniform bytes: a key makes one mask and no more, so the nonce may be zero."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    return Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(size))


def sealed(key: bytes, content: bytes, label: bytes) -> bytes:
    """A box that only the other one opens. Both ends derive one key, and each seals one box with
    it: whose it is stands in the nonce.
    """
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(_nonce(label), content, label)


def opened_box(key: bytes, box: bytes, label: bytes) -> bytes:
    """What is in it, refused where anybody touched it."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(_nonce(label), box, label)
    except InvalidTag:
        raise FusionError("a box of shares was sealed by somebody else") from None


def _nonce(label: bytes) -> bytes:
    return sha256(label).digest()[:12]


def _private(secret: bytes) -> X25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret)
