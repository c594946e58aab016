"""Whose signatures count, as the registry has it: what the coordinator's gate goes by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from coordinator.members.office import Office
from protofleet.trust import keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Keys = Mapping[bytes, "Ed25519PublicKey"]


class MemberKeys:
    """Members' keys by name, and the fleet's own under the name of nobody."""

    def __init__(self, office: Office, *, everyone: bool) -> None:
        self._office, self._everyone = office, everyone
        self._keys: dict[str, Keys] = {}
        self.refresh()

    def refresh(self) -> None:
        """As the registry is now."""
        members = self._office.keys_of_members()
        self._keys = {name: {keys.name(raw): keys.public(raw)} for name, raw in members.items()}
        self._keys[""] = self._office.ring.public()

    def keys(self, speaker: str) -> Keys:
        """A member's key, by the name that signatures have for it; none for anybody else."""
        return self._keys.get(speaker, {})

    def required(self, speaker: str) -> bool:
        """Whether one who is no member is refused."""
        return self._everyone
