"""Ed25519 keys as files that no other user may read, and the short names that signatures call them
by.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from protofleet.errors import TrustError
from protofleet.util.files import OWN_FILE, own_file, own_folder, write_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

NAME = 8  # bytes of a key's name: one of a few that are tried, and never the key itself
SIZE = 32  # bytes of a key


def new() -> Ed25519PrivateKey:
    """A key of the system's random numbers."""
    _check_installed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate()


def from_seed(seed: bytes) -> Ed25519PrivateKey:
    """The key that these 32 bytes are."""
    _check_installed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed)


def of_file(path: Path) -> Ed25519PrivateKey:
    """The key that is kept there, or a new one that is kept there from now on."""
    if not path.exists():
        own_folder(path.parent)
        key = new()
        # Whole or not there: half a key would be asked about with its owner's certificate for ever.
        write_whole(path, as_pem(key), mode=OWN_FILE)
        return key
    return read(path)


def read(path: Path) -> Ed25519PrivateKey:
    """The key that is kept there."""
    _check_installed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not path.exists():
        raise TrustError(f"{path} is not there")
    try:
        key = load_pem_private_key(own_file(path).read_bytes(), None)
    except OSError as error:
        raise TrustError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError):
        raise TrustError(f"{path}: no private key in PEM form") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise TrustError(f"{path}: not a key of Ed25519")
    return key


def as_pem(key: Ed25519PrivateKey) -> bytes:
    """Unencrypted, as a broker's client reads it: the file's mode is what protects it."""
    from cryptography.hazmat.primitives import serialization as form

    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


def public(raw: bytes) -> Ed25519PublicKey:
    """The public key of these 32 bytes."""
    if len(raw) != SIZE:
        raise TrustError(f"a key of {len(raw)} bytes where {SIZE} are due")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(raw)


def raw(key: Ed25519PublicKey) -> bytes:
    """A public key's 32 bytes."""
    return key.public_bytes_raw()


def name(raw: bytes) -> bytes:
    """What signatures call this key."""
    return sha256(raw).digest()[:NAME]


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("cryptography") is None:
        raise TrustError("keys need the package cryptography", "pip install 'protofleet[trust]'")
