"""An invitation as a person carries it to a device: one line of text.

It is a secret (a key of its own, by which the coordinator knows who was invited) and a promise (the
fingerprint of the authority, by which the device knows who invited it).
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from protofleet.errors import UsageError, WireError
from protofleet.mqtt.topics import check_name
from protofleet.trust import keys
from protofleet.wire import strict
from protofleet.wire.limits import Limits

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PREFIX = "pf1."
LIMITS = Limits(message=1024, items=32)
KINDS = {
    "fleet": str,
    "name": str,
    "several": bool,
    "seed": bytes,
    "authority": bytes,
    "broker": str,
    "door": str,
    "expires": int,
}
HINT = "a token is what `coordinator invite NAME` prints, whole"


@dataclass(frozen=True)
class Invitation:
    """Who is invited to which fleet, and where that is."""

    fleet: str
    name: str  # the device's; of a class of devices what their names begin with
    several: bool  # a class of devices
    seed: bytes  # the invitation's own key
    authority: bytes  # the fingerprint of the fleet's
    broker: str  # where members connect
    door: str  # where who is not one yet may ask
    expires: int  # by the coordinator's clock, in seconds since 1970

    @property
    def key(self) -> Ed25519PrivateKey:
        """By which the coordinator knows that this token was shown."""
        return keys.from_seed(self.seed)

    @property
    def id(self) -> str:
        """The invitation's name, which is no secret."""
        return keys.name(keys.raw(self.key.public_key())).hex()

    @property
    def password(self) -> str:
        """With which a broker's door is opened; who hears it learns nothing of the key."""
        return sha256(b"door " + self.seed).hexdigest()


def as_text(token: Invitation) -> str:
    """One line without spaces."""
    data = strict.dump(dict(vars(token)), LIMITS, "token")
    return PREFIX + urlsafe_b64encode(data).rstrip(b"=").decode()


def of_text(text: str) -> Invitation:
    """What a person pasted, or `UsageError`."""
    head, _, tail = text.strip().partition(PREFIX)
    if head or not tail:
        raise UsageError(f"the token does not begin with {PREFIX}", HINT)
    try:
        data = urlsafe_b64decode(tail + "=" * (-len(tail) % 4))
        if urlsafe_b64encode(data).rstrip(b"=") != tail.encode():
            raise ValueError
        fields = strict.load(data, LIMITS, "token")
        token = Invitation(**fields)
    except (WireError, ValueError, TypeError):
        raise UsageError("the token is damaged", HINT) from None
    if {name: type(value) for name, value in vars(token).items()} != KINDS:
        raise UsageError("the token is damaged", HINT)
    if len(token.seed) != keys.SIZE or len(token.authority) != 32:
        raise UsageError("the token is damaged", HINT)
    check_name("fleet", token.fleet)
    check_name("device", token.name)
    return token
