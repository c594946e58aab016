"""What signatures cost beside none: members whose keys a coordinator knows before it begins, and a
gate by itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.members.office import Office
from coordinator.members.registry import MemberRecord
from protofleet.mqtt.topics import Topics
from protofleet.trust import keys
from protofleet.trust.sealing import Gate, Signer
from protofleet.trust.sequence import DAEMON, Numbers
from protofleet.trust.sequence import Sequence as Rising

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


@dataclass(frozen=True)
class SigningCrew:
    """Devices as members, without their asking: a thousand certificates would take a minute."""

    signers: Mapping[str, Signer]

    @staticmethod
    def of_folder(data: Path, fleet: str, names: Sequence[str]) -> SigningCrew:
        """In the registry of a coordinator that is not running."""
        office, numbers = Office(data, fleet, time.time), Rising(data / "crew", DAEMON)
        made = {name: keys.new() for name in names}
        try:
            with office.registry.commit():
                for name, key in made.items():
                    raw = keys.raw(key.public_key())
                    office.registry.put_member(MemberRecord(name, raw, "", time.time(), None))
        finally:
            office.close()
        return SigningCrew({name: Signer(key, numbers) for name, key in made.items()})

    def seal(self, agent: str, topic: str, message: bytes) -> bytes:
        """As that device says it."""
        return self.signers[agent].seal(topic, message)


@dataclass(frozen=True)
class OneKey:
    """The book of a gate that knows one device."""

    name: bytes
    key: Ed25519PublicKey

    def keys(self, speaker: str) -> Mapping[bytes, Ed25519PublicKey]:
        """It is that device's, whoever asks."""
        return {self.name: self.key}

    def required(self, speaker: str) -> bool:
        """Nobody is heard without one."""
        return True


def opened_us(size: int, folder: Path, times: int = 400) -> float:
    """Microseconds for a message of this size to be let in, at best: what the coordinator's gate
    does with it, and no more.
    """
    key, rising = keys.new(), Rising(folder / "gate", DAEMON)
    signer, topic = Signer(key, rising), Topics("bench").upload("a", 1)
    gate = Gate(OneKey(signer.name, key.public_key()), Numbers())
    sealed = [signer.seal(topic, bytes(size)) for _ in range(times)]
    best = float("inf")
    for message in sealed:
        began = time.perf_counter()
        gate.open("a", topic, "upload", message)
        best = min(best, time.perf_counter() - began)
    rising.close()
    return 1e6 * best
