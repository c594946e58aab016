"""A device's word for keys that others of its fleet are to mask with: its certificate, and its
signature.
"""

# Theory of operation
#
# What a device says is signed for the coordinator, which knows its key. Its neighbours in a masked
# sum must know, too, that keys are of a member and not of the coordinator's own invention; and they
# know the fleet's authority alone. So a voucher carries both halves:
#
#   2 bytes   length of the signature
#   COSE_Sign1, detached, over what is vouched for; external_aad PURPOSE
#   the rest  the device's certificate, in DER form, signed by the authority
#
# It holds if the certificate is the authority's, in force, for a client of this very name, and the
# signature is of the certificate's key. Whoever has the authority's key can make certificates for
# devices that do not exist: it lies at the coordinator, in `trust/`.

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from protofleet.errors import TrustError
from protofleet.trust import certificates, cose

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PURPOSE = b"protofleet masks"
_LENGTH = 2  # bytes that say how long the signature is


def vouched(key: Ed25519PrivateKey, certificate: x509.Certificate, content: bytes) -> bytes:
    """A voucher for this content."""
    signature = cose.sign(key, {}, PURPOSE, content, detached=True)
    length = len(signature).to_bytes(_LENGTH, "big")
    return length + signature + certificates.as_der(certificate)


def check(
    voucher: bytes,
    name: str,
    content: bytes,
    authority: x509.Certificate,
    now: Callable[[], datetime],
) -> None:
    """Whether a member of this name vouches for it; `TrustError` if not."""
    if not voucher:
        raise TrustError(f"{name} does not vouch for its keys")
    end = _LENGTH + int.from_bytes(voucher[:_LENGTH], "big")
    signature, length = cose.read(voucher[_LENGTH:end])
    if length != end - _LENGTH:
        raise TrustError(f"the voucher of {name} is none")
    certificate = certificates.of_der(voucher[end:])
    holder = certificates.check(certificate, authority, "client", now())
    if holder != name:
        raise TrustError(f"keys of {name} under the certificate of {holder}")
    cose.verify(signature, certificates.key_of(certificate), PURPOSE, content)
