"""What a device and the coordinator say to each other before they know each other, and when a
certificate is to be renewed.
"""

# Theory of operation
#
# A device that was invited has a token; the coordinator has the token's public key. Neither trusts
# the broker between them, nor the encryption to it: the device has no authority yet to check a
# broker's certificate against. So both words are signed, and nothing in them is secret:
#
#   topic                 who       what                              signed by
#   j/{invitation}/ask    device    the name that it goes by, and     the token's key
#                                   its certificate request (its
#                                   own new key, which never leaves)
#   j/{invitation}/answer coordina- its certificate, the fleet's      the fleet's authority, whose
#                         tor       keys, the authority's             fingerprint is in the token
#                                   certificate; or why not
#   d/{id}/csr            device    a request for the same key        the device's key, like all
#                                                                     that it says
#   d/{id}/crt            coordina- the answer                        the authority
#                         tor
#
# An answer names the sha256 of what it answers. An answer may be lost: the device asks again, in
# the same bytes, and is answered the same. A token is used up by the first key that shows it: who
# copies it later is refused, and if the copy was first, the device that was meant is refused and
# its owner hears of it. `coordinator devices` shows who came.

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from protofleet.errors import TrustError, WireError
from protofleet.trust import certificates, cose
from protofleet.trust.certificates import Authority
from protofleet.wire import strict
from protofleet.wire.limits import Limits

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

LIMITS = Limits(message=16_384, items=64)


@dataclass(frozen=True)
class Admission:
    """What a device is given: its name, its certificate, and whom it may believe."""

    name: str
    certificate: x509.Certificate
    authority: x509.Certificate
    ring: bytes  # the fleet's keys, under the authority's signature
    root: bytes = b""  # of the fleet's list of bundles (`listing`), where there is one


def ask(key: Ed25519PrivateKey, topic: str, name: str, request: bytes) -> bytes:
    """A device wants to be let in."""
    content = strict.dump({"name": name, "request": request}, LIMITS, "ask")
    return cose.sign(key, {}, topic.encode(), content)


def read_ask(data: bytes, key: Ed25519PublicKey, topic: str) -> tuple[str, bytes]:
    """The name and the certificate request, if the token's holder says so."""
    fields = _fields(_whole(data, key, topic), "ask")
    name, request = fields.get("name"), fields.get("request")
    if not isinstance(name, str) or not isinstance(request, bytes):
        raise TrustError("ask: no name, or no request")
    return name, request


def admitted(authority: Authority, topic: str, question: bytes, admission: Admission) -> bytes:
    """The answer to who is let in."""
    return _answer(
        authority,
        topic,
        question,
        {
            "name": admission.name,
            "certificate": certificates.as_der(admission.certificate),
            "ring": admission.ring,
            "root": admission.root,
        },
    )


def declined(authority: Authority, topic: str, question: bytes, words: str) -> bytes:
    """The answer to who is not."""
    return _answer(authority, topic, question, {"words": words[:200]})


def read_answer(data: bytes, fingerprint: bytes, topic: str, question: bytes) -> Admission:
    """What this authority answered to this question; `TrustError` if it is anybody else's, or a
    no.
    """
    signature, _ = cose.read(data)
    # Read before it is verified, for the key is in it; the fingerprint says whether it may be.
    stated = _fields(signature.payload or b"", "answer")
    der = stated.get("authority")
    if not isinstance(der, bytes) or certificates.fingerprint(der) != fingerprint:
        raise TrustError("answer: of another authority than the invitation's")
    authority = certificates.of_der(der)
    fields = _fields(_whole(data, certificates.key_of(authority), topic), "answer")
    if fields.get("ask") != sha256(question).digest():
        raise TrustError("answer: to another question")
    if "words" in fields:
        raise Declined(f"the coordinator does not let this device in: {fields['words']}")
    name, certificate, ring = (fields.get(key) for key in ("name", "certificate", "ring"))
    if not isinstance(name, str) or not isinstance(certificate, bytes):
        raise TrustError("answer: no name, or no certificate")
    root = fields.get("root")
    if not isinstance(ring, bytes) or not isinstance(root, bytes):
        raise TrustError("answer: no keys of the fleet")
    return Admission(name, certificates.of_der(certificate), authority, ring, root)


class Declined(TrustError):
    """The coordinator's own no: to ask again changes nothing."""

    code = "declined"


def _answer(authority: Authority, topic: str, question: bytes, fields: dict[str, Any]) -> bytes:
    document = {
        **fields,
        "ask": sha256(question).digest(),
        "authority": certificates.as_der(authority.certificate),
    }
    content = strict.dump(document, LIMITS, "answer")
    return cose.sign(authority.key, {}, topic.encode(), content)


def _whole(data: bytes, key: Ed25519PublicKey, topic: str) -> bytes:
    signature, end = cose.read(data)
    if end != len(data):
        raise TrustError("signature: bytes after its end")
    return cose.verify(signature, key, topic.encode())


def _fields(content: bytes, where: str) -> dict[str, Any]:
    try:
        document = strict.load(content, LIMITS, where)
    except WireError as error:
        raise TrustError(error.words) from None
    if not isinstance(document, dict):
        raise TrustError(f"{where}: no map")
    return document
