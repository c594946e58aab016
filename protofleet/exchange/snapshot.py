"""Whole states and checkpoints as one run of bytes, exactly: named groups of parts in float32."""

from __future__ import annotations

from collections.abc import Mapping

from protofleet import wire
from protofleet.exchange.state import GlobalState
from protofleet.values.prototypes import Part, Parts

_LOCAL = wire.Limits(message=1 << 40)  # written by ourselves, read from our own disk


def pack(groups: Mapping[str, Parts]) -> bytes:
    """Named groups of parts, exactly."""
    return wire.encode_parts(
        {f"{g}/{name}": part for g, parts in groups.items() for name, part in parts.items()},
        "float32",
        limits=_LOCAL,
    )


def unpack(data: bytes) -> dict[str, Parts]:
    """The groups of `pack`; one without parts does not come back."""
    groups: dict[str, dict[str, Part]] = {}
    for path, part in wire.decode_parts(data, _LOCAL).items():
        # From the right: a group may hold slashes (`own/<agent>`), a part's name holds none.
        group, _, name = path.rpartition("/")
        groups.setdefault(group, {})[name] = part
    return dict(groups)


def pack_state(state: GlobalState) -> bytes:
    """A global state: groups `shared`, `server` and `own/<agent>`."""
    return pack(
        {
            "shared": state.shared,
            "server": state.server,
            **{f"own/{a}": p for a, p in state.own.items()},
        }
    )


def unpack_state(data: bytes) -> GlobalState:
    """The state of `pack_state`."""
    groups = unpack(data)
    own = {
        group.removeprefix("own/"): parts
        for group, parts in groups.items()
        if group.startswith("own/")
    }
    return GlobalState(groups.get("shared", {}), own, groups.get("server", {}))
