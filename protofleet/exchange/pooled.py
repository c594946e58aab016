"""A site's upload of a round: the sums of its devices' uploads, in place of one device's parts."""

# Theory of operation
#
# What a recipe makes of an upload is a partial (`protofleet.values.sums`), and partials add up in
# any order and in any tree. So a site folds its devices' uploads itself and says the total: its
# parts are the sums, by their names, and the names of the devices that are in them. At the
# coordinator above such an upload is folded as what it is; the state that comes of it is that of
# all devices under one coordinator, to the bit.
#
# Only sums: what a recipe keeps whole (`Bag`) would have to travel whole, and is not said so.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from protofleet.errors import FusionError, SettingError, WireError
from protofleet.exchange.published import document_part, plain_of
from protofleet.settings.fields import from_plain
from protofleet.values.limbs import packed, unpacked
from protofleet.values.prototypes import Part, Parts
from protofleet.values.sums import Partial, Sum

POOLED = "pooled"  # the part that says so
_SUM = "sum of "


@dataclass(frozen=True)
class PooledClaim:
    """Whose uploads are in it."""

    members: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.members or len(set(self.members)) != len(self.members):
            raise SettingError("devices are due, each once")


@dataclass(frozen=True, eq=False)
class PooledUpload:
    """As it is folded."""

    claim: PooledClaim
    partial: Partial


def parts_of(members: Sequence[str], total: Partial) -> Parts:
    """As it travels; `FusionError` for what is no sum."""
    parts: dict[str, Part] = {POOLED: document_part(PooledClaim(tuple(sorted(members))))}
    for name, part in total.items():
        if not isinstance(part, Sum):
            raise FusionError(f"{name}: a site says sums alone")
        if part.weights.any():
            parts[_SUM + name] = packed(name, part)
    return parts


def is_pooled(parts: Mapping[str, Part]) -> bool:
    """Whether these are a site's."""
    return POOLED in parts


def read(parts: Mapping[str, Part]) -> PooledUpload:
    """Checked, or `FusionError`."""
    try:
        about = plain_of(parts[POOLED], POOLED)
        claim = from_plain(PooledClaim, about, POOLED)
    except (SettingError, WireError) as error:
        raise FusionError(error.words) from None
    sums = {}
    for name, part in parts.items():
        if name == POOLED:
            continue
        if not name.startswith(_SUM):
            raise FusionError(f"{name[:40]}: no part of a site's upload")
        sums[name.removeprefix(_SUM)] = unpacked(name, part)
    return PooledUpload(claim, sums)
