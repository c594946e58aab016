"""What a group says, as bytes and back: one CBOR map a message, through the strict decoder; and
what a device has to remember of it, the same way.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from protofleet.errors import FleetError, WireError
from protofleet.masking.group import (
    Agreement,
    Boxes,
    MaskedSum,
    Member,
    Parcel,
    PublicKeys,
    Readiness,
    Reveal,
    Roster,
    Secrets,
    Survivors,
)
from protofleet.wire import strict
from protofleet.wire.limits import DEFAULT, Limits

Letter = (
    Readiness | Agreement | PublicKeys | Roster | Boxes | Parcel | MaskedSum | Survivors | Reveal
)
KINDS: Mapping[str, type[Any]] = {kind.__name__.lower(): kind for kind in typing.get_args(Letter)}
_KEY = 32  # bytes of a published key, and of a hash
_VOUCHER = 4096  # bytes at most: a certificate and a signature
_AXES, _AXIS = 8, 2**31  # of a row's shape


def encode_letter(letter: Letter, limits: Limits = DEFAULT) -> bytes:
    """Deterministic bytes."""
    kind = type(letter).__name__.lower()
    content = {f.name: _plain(getattr(letter, f.name)) for f in fields(letter)}
    return strict.dump({"t": kind, **content}, limits, kind)


def decode_letter(data: bytes, limits: Limits = DEFAULT) -> Letter:
    """The message behind the bytes, checked."""
    raw = strict.load(data, limits, "letter")
    kind = raw.pop("t", None) if isinstance(raw, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise WireError(f"letter: none of {', '.join(KINDS)}")
    cls = KINDS[kind]
    hints = typing.get_type_hints(cls)
    if raw.keys() != hints.keys():
        raise WireError(f"{kind}: {', '.join(hints)} are due")
    content = {name: _typed(raw[name], hints[name], f"{kind}.{name}") for name in hints}
    try:
        letter: Letter = cls(**content)
    except FleetError as error:
        raise WireError(f"{kind}: {error.words}") from error
    return letter


def encode_member(member: Member, limits: Limits = DEFAULT) -> bytes:
    """A device's memory of a session: secrets are in it."""
    own, roster = member.secrets, member.roster
    content = {
        "name": member.name,
        "agreement": encode_letter(member.agreement, limits),
        "secrets": [own.box, own.mask, own.seed],
        "voucher": member.voucher,
        "roster": b"" if roster is None else encode_letter(roster, limits),
        "present": list(member.present),
        "shares": dict(member.shares),
        "step": member.step,
    }
    return strict.dump(content, limits, "member")


def decode_member(data: bytes, limits: Limits = DEFAULT) -> Member:
    """And back; it was written here, and comes of a disk."""
    raw = strict.load(data, limits, "member")
    agreement = decode_letter(raw["agreement"], limits)
    roster = decode_letter(raw["roster"], limits) if raw["roster"] else None
    assert isinstance(agreement, Agreement)
    assert roster is None or isinstance(roster, Roster)
    memory = raw["shares"], str(raw["step"])
    secrets, present = Secrets(*raw["secrets"]), tuple(raw["present"])
    return Member(raw["name"], agreement, secrets, raw["voucher"], roster, present, *memory)


def _plain(content: Any) -> Any:
    match content:
        case Mapping():
            return {name: _plain(member) for name, member in content.items()}
        case tuple():
            return list(content)
        case PublicKeys():
            return [content.box, content.mask, content.seed, content.voucher]
    return content


def _typed(raw: Any, hint: Any, where: str, name: str = "") -> Any:
    if hint in (bytes, str, int):
        if type(raw) is not hint:
            raise WireError(f"{where}: {hint.__name__} is due")
        if where == "publickeys.voucher":
            if len(raw) > _VOUCHER:
                raise WireError(f"{where}: {len(raw)} bytes, at most {_VOUCHER} are allowed")
        elif hint is bytes and where.startswith("publickeys.") and len(raw) != _KEY:
            raise WireError(f"{where}: {_KEY} bytes are due")
        return raw
    if hint is PublicKeys:
        if not isinstance(raw, list) or len(raw) != len(fields(PublicKeys)) - 1:
            raise WireError(f"{where}: three keys and a voucher are due")
        keys = [_typed(key, bytes, "publickeys.key") for key in raw[:-1]]
        voucher = _typed(raw[-1], bytes, "publickeys.voucher")
        box, mask, seed = keys
        return PublicKeys(name, box, mask, seed, voucher)
    if typing.get_origin(hint) is tuple and typing.get_args(hint)[0] is int:
        axes = raw if isinstance(raw, list) and len(raw) <= _AXES else [None]
        if not all(type(axis) is int and 0 <= axis < _AXIS for axis in axes):
            raise WireError(f"{where}: the shape of a row is due")
        return tuple(axes)
    if typing.get_origin(hint) is tuple:
        if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
            raise WireError(f"{where}: a list of names is due")
        return tuple(raw)
    if not isinstance(raw, dict):
        raise WireError(f"{where}: a map is due")
    kind = typing.get_args(hint)[1]
    return {name: _typed(raw[name], kind, f"{where}.{name}", name) for name in raw}
