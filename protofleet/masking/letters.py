"""What a group says, as bytes and back: one CBOR map a message, through the strict decoder."""

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
    Parcel,
    PublicKeys,
    Reveal,
    Roster,
    Survivors,
)
from protofleet.wire import strict
from protofleet.wire.limits import DEFAULT, Limits

Letter = Agreement | PublicKeys | Roster | Boxes | Parcel | MaskedSum | Survivors | Reveal
KINDS: Mapping[str, type[Any]] = {kind.__name__.lower(): kind for kind in typing.get_args(Letter)}
_KEY = 32  # bytes of a published key, and of a hash


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


def _plain(content: Any) -> Any:
    match content:
        case Mapping():
            return {name: _plain(member) for name, member in content.items()}
        case tuple():
            return list(content)
        case PublicKeys():
            return [content.box, content.mask, content.seed]
    return content


def _typed(raw: Any, hint: Any, where: str) -> Any:
    if hint in (bytes, str, int):
        if type(raw) is not hint:
            raise WireError(f"{where}: {hint.__name__} is due")
        if hint is bytes and where.startswith("publickeys.") and len(raw) != _KEY:
            raise WireError(f"{where}: {_KEY} bytes are due")
        return raw
    if hint is PublicKeys:
        if not isinstance(raw, list) or len(raw) != len(fields(PublicKeys)) - 1:
            raise WireError(f"{where}: three keys are due")
        keys = [_typed(key, bytes, "publickeys.key") for key in raw]
        return PublicKeys(where.rpartition(".")[2], *keys)
    if typing.get_origin(hint) is tuple:
        if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
            raise WireError(f"{where}: a list of names is due")
        return tuple(raw)
    if not isinstance(raw, dict):
        raise WireError(f"{where}: a map is due")
    kind = typing.get_args(hint)[1]
    return {name: _typed(raw[name], kind, f"{where}.{name}") for name in raw}
