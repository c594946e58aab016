"""Who said what, verified again: signatures of the journal against the keys of the registry.

What is asked is whether the bytes that are in the journal are those that a member signed. It needs
no service and no broker: a copy of the data directory will do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from coordinator.journal.journal import Journal
from coordinator.journal.signatures import ProofRecord
from coordinator.members.registry import Registry
from protofleet import wire
from protofleet.errors import TrustError, WireError
from protofleet.mqtt.topics import Topics
from protofleet.trust import cose, keys

# What the journal has of what was signed.
#   here      its bytes, and they are the ones
#   gone      a newer one took its place, or it was refused, forgotten, compacted away
#   unsigned  its bytes, and nobody signed them
# `forged`: the signature does not hold, or is of a key that the name never had.
Verdict = Literal["here", "gone", "unsigned", "forged"]


@dataclass(frozen=True)
class Finding:
    """One word of a device's."""

    agent: str
    round: int  # 0: of a ledger
    digest: str  # of the whole message
    verdict: Verdict
    at: float  # when it was taken in; 0 where nobody signed it
    words: str = ""


def audited(journal: Journal, registry: Registry, fleet: str) -> Iterator[Finding]:
    """Everything that was signed, oldest first, and then what is there without a signature."""
    topics, bodies = Topics(fleet), dict(_bodies(journal))
    signed: set[tuple[str, int, str]] = set()
    for proof in journal.signatures.proofs():
        key = proof.agent, proof.round, proof.digest
        try:
            check(proof, registry.keys(proof.agent), topics)
        except TrustError as error:
            yield Finding(*key, "forged", proof.at, str(error))
            continue
        signed.add(key)
        yield Finding(*key, "here" if key in bodies else "gone", proof.at)
    for key in sorted(bodies.keys() - signed):
        yield Finding(*key, "unsigned", 0.0)


def check(proof: ProofRecord, of_name: list[bytes], topics: Topics) -> None:
    """Whether a key of this name signed this message for this round."""
    signature, end = cose.read(proof.proof)
    named = {keys.name(raw): raw for raw in of_name}
    key_id = signature.headers.get(cose.KEY_ID)
    raw = named.get(key_id) if isinstance(key_id, bytes) else None
    if raw is None:
        raise TrustError(f"signature: of a key that {proof.agent} never had")
    # Of a large message the descriptor was signed, which names its digest.
    descriptor = proof.proof[end:]
    content = sha256(descriptor).digest() if descriptor else bytes.fromhex(proof.digest)
    topic = topics.upload(proof.agent, proof.round)
    cose.verify(signature, keys.public(raw), topic.encode(), content)
    if descriptor:
        try:
            digest = wire.decode(descriptor).body.get("digest")
        except WireError as error:
            raise TrustError(error.words) from None
        if digest != proof.digest:
            raise TrustError("signature: of the descriptor of another message")


def _bodies(journal: Journal) -> Iterator[tuple[tuple[str, int, str], bool]]:
    """Whose bytes are there, under the sha256 of the whole message."""
    for upload in journal.uploads():
        body = journal.body(upload.blob)
        if body:
            yield (upload.agent, upload.round, sha256(body).hexdigest()), True
    for agent, body in journal.ledger.bodies():
        yield (agent, 0, sha256(body).hexdigest()), True
    for agent, body in journal.ledger.counted():
        yield (agent, 0, sha256(body).hexdigest()), True
