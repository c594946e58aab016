"""A device's checkpoint as bytes: named groups of parts, exactly."""

from __future__ import annotations

from collections.abc import Mapping

from protofleet import wire
from protofleet.prototypes import Part, Parts

_LOCAL = wire.Limits(message=1 << 40)


def pack(groups: Mapping[str, Parts]) -> bytes:
    """Every float in float32, nothing rounded."""
    flat = {f"{group}/{name}": part for group, parts in groups.items() for name, part in parts.items()}
    return wire.encode_parts(flat, "float32", limits=_LOCAL)


def unpack(data: bytes) -> dict[str, Parts]:
    """The groups of `pack`."""
    groups: dict[str, dict[str, Part]] = {}
    for path, part in wire.decode_parts(data, _LOCAL).items():
        group, _, name = path.rpartition("/")
        groups.setdefault(group, {})[name] = part
    return dict(groups)
