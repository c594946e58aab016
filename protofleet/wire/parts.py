"""Parts to bytes and back: a map from name to part, a part being a map of its kind and its fields.

Which fields a kind has is read off the vocabulary's dataclasses, so the wire cannot drift from
them. Points travel in the fleet's precision, what has to add up or stay positive in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from hashlib import sha256
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from protofleet.errors import ValueRefused, WireError
from protofleet.values.prototypes import (
    Head,
    Mixtures,
    Part,
    Parts,
    Prototypes,
    SoftLabels,
    Tensors,
)
from protofleet.wire import strict
from protofleet.wire.arrays import Precision, decode_array, encode_array
from protofleet.wire.limits import DEFAULT, Limits
from protofleet.wire.strict import shown
from protofleet.wire.templates import Templates


@dataclass(frozen=True)
class Field:
    """How one field of the vocabulary travels."""

    optional: bool
    holds: str  # "f" floats, "iu" integers, "map" named arrays of either
    rounded: bool  # in the fleet's precision rather than in float32


# Half precision moves a coordinate by at most 2⁻¹¹ of its size, which changes a nearest neighbour
# only where two were about as near. Weights, variances and probabilities are divided by, or have to
# add up to one: they stay as they are.
ROUNDED = {(Prototypes, "vectors"), (Mixtures, "means")}
HOLDS = {"Floats": "f", "Ints": "iu", "Ints | None": "iu", "Mapping[str, Floats | Ints]": "map"}
KINDS: Mapping[str, type[Part]] = {
    cls.__name__.lower(): cls for cls in (Prototypes, Mixtures, Head, SoftLabels, Tensors)
}
FIELDS: Mapping[type[Part], Mapping[str, Field]] = {
    cls: {
        f.name: Field(f.default is not MISSING, HOLDS[str(f.type)], (cls, f.name) in ROUNDED)
        for f in fields(cls)
    }
    for cls in KINDS.values()
}
NONE: Mapping[str, Precision] = MappingProxyType({})


def encode_parts(
    parts: Parts,
    precision: Precision = "half",
    exceptions: Mapping[str, Precision] = NONE,
    limits: Limits = DEFAULT,
    where: str = "parts",
) -> bytes:
    """Deterministic bytes; `precision` is for points, `exceptions` by part name for all floats of
    that part.
    """
    if not isinstance(parts, Mapping):
        raise WireError(f"{where}: {type(parts).__name__} is no map of parts")
    for name, part in parts.items():
        _check(part, limits, f"{where}.{shown(name)}")
    data = strict.dump(_packed(parts, precision, exceptions, where), limits, where)
    if exceptions.keys() & parts.keys():
        # Rounding may undo what a value promises (variances above 0, sums of one), and then the
        # receiver would refuse what we sent: find out here.
        decode_parts(data, limits, where)
    return data


def decode_parts(
    data: bytes, limits: Limits = DEFAULT, where: str = "parts", templates: Templates | None = None
) -> Parts:
    """The parts behind the bytes, checked; `where` begins the field path in a refusal.

    Who decodes many of the same layout keeps the `templates` from one to the next.
    """
    template = None if templates is None else templates.find(data, limits)
    if template is not None:
        return {
            name: _part(kind, content, limits, f"{where}.{shown(name)}")
            for name, kind, content in template.read(data)
        }
    strings: list[tuple[int, int]] = []
    raw = strict.load(data, limits, where, strings)
    if not isinstance(raw, dict):
        raise WireError(f"{where}: not a map of parts")
    parts = {name: _unpack(part, limits, f"{where}.{shown(name)}") for name, part in raw.items()}
    if templates is not None:
        templates.learn(data, limits, raw, strings)
    return parts


def as_received(
    parts: Parts,
    precision: Precision = "half",
    exceptions: Mapping[str, Precision] = NONE,
    limits: Limits = DEFAULT,
) -> Parts:
    """The parts as whoever gets the bytes will see them."""
    return decode_parts(encode_parts(parts, precision, exceptions, limits), limits)


def digest(parts: Parts) -> str:
    """The content hash: sha256 of the deterministic float32 bytes, however the parts travelled."""
    return sha256(strict.pack(_packed(parts, "float32", NONE, "parts"), "parts")).hexdigest()


def _packed(
    parts: Parts, precision: Precision, exceptions: Mapping[str, Precision], where: str
) -> dict[str, Any]:
    for name in (precision, *exceptions.values()):
        if name not in get_args(Precision):
            raise WireError(
                f"{where}: precision {name!r} is none of {', '.join(get_args(Precision))}"
            )
    return {
        n: _pack(part, precision, exceptions.get(n), f"{where}.{shown(n)}")
        for n, part in parts.items()
    }


def _pack(
    part: Part, precision: Precision, exception: Precision | None, where: str
) -> dict[str, Any]:
    packed: dict[str, Any] = {"kind": type(part).__name__.lower()}
    for name, field in FIELDS[type(part)].items():
        content = getattr(part, name)
        how = exception or (precision if field.rounded else "float32")
        path = f"{where}.{name}"
        if field.holds == "map":
            packed[name] = {
                n: encode_array(a, how, f"{path}.{shown(n)}") for n, a in content.items()
            }
        elif content is not None:
            packed[name] = encode_array(content, how, path)
    return packed


def _unpack(raw: Any, limits: Limits, where: str) -> Part:
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise WireError(f"{where}: not a part of kind {', '.join(KINDS)}")
    allowed = FIELDS[KINDS[kind]]
    for name in raw:
        if name not in allowed and name != "kind":
            raise WireError(f"{where}.{shown(name)}: {kind} have no such field")
    content: dict[str, Any] = {}
    for name, field in allowed.items():
        path = f"{where}.{name}"
        if name in raw:
            content[name] = _unpack_field(raw[name], field, path)
        elif not field.optional:
            raise WireError(f"{path}: missing")
    return _part(kind, content, limits, where)


def _part(kind: str, content: Mapping[str, Any], limits: Limits, where: str) -> Part:
    try:
        part = KINDS[kind](**content)
    except ValueRefused as error:
        raise WireError(f"{where}.{error.words}") from error
    _check(part, limits, where)
    return part


def _unpack_field(raw: Any, field: Field, where: str) -> Any:
    if field.holds == "map":
        if not isinstance(raw, dict):
            raise WireError(f"{where}: not a map of arrays")
        return {name: decode_array(array, f"{where}.{shown(name)}") for name, array in raw.items()}
    array = decode_array(raw, where)
    if array.dtype.kind not in field.holds:
        raise WireError(
            f"{where}: {array.dtype.name} where"
            f" {'floats' if field.holds == 'f' else 'integers'} are due"
        )
    return array


def _check(part: Part, limits: Limits, where: str) -> None:
    """What the wire bounds and the vocabulary does not; on the way out as on the way in."""
    if type(part) not in FIELDS:
        raise WireError(f"{where}: {type(part).__name__} is not a part of kind {', '.join(KINDS)}")
    if isinstance(part, Tensors):
        return
    classes = part.classes
    if classes.size and classes[-1] >= limits.classes:
        raise WireError(f"{where}.classes: class {classes[-1]}, ids are below {limits.classes}")
    if isinstance(part, (Prototypes, Mixtures)) and len(classes) > limits.per_class:
        # Rows are sorted by class: one class has too many if it is met again that many rows later.
        over = classes[limits.per_class :] == classes[: len(classes) - limits.per_class]
        if over.any():
            crowded = classes[int(np.argmax(over))]
            raise WireError(
                f"{where}.classes: class {crowded} has more than {limits.per_class} rows"
            )
    widest = limits.classes if isinstance(part, SoftLabels) else limits.dim
    for name, array in vars(part).items():
        if array is not None and array.ndim == 2 and array.shape[1] > widest:
            raise WireError(
                f"{where}.{name}: rows of {array.shape[1]} values, at most {widest} are allowed"
            )
