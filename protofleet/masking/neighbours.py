"""Who masks with whom: all with all where they are few, else a circle in which everybody has the
same number of neighbours (Bell et al., CCS 2020), so that work does not grow with the fleet.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from protofleet.errors import UsageError

FEW = 20  # neighbours of each device, where there are more devices than that


def degree(devices: int, dropouts: int) -> int:
    """How many neighbours each has, so that any `dropouts` of them may be lost and two sets that
    give a secret back still overlap in somebody.
    """
    most = devices - 1
    if dropouts < 0 or 2 * dropouts >= most:
        raise UsageError(
            f"{devices} devices cannot lose {dropouts}: a masked sum can lose less than half of "
            "a device's neighbours"
        )
    around = max(FEW, 2 * dropouts + 2)
    return most if most <= around else around + around % 2


def threshold(devices: int, dropouts: int) -> int:
    """Shares that give a secret back. More than half of the neighbours: a coordinator that tells
    one half that a device is lost and the other that it is not gets neither of its secrets.
    """
    return degree(devices, dropouts) - dropouts


def circle(keys: Mapping[str, bytes], session: bytes, around: int) -> dict[str, tuple[str, ...]]:
    """Each device's neighbours, sorted; all others where there are no more than `around`.

    The order is by the hash of what everybody has published, so nobody chooses their neighbours
    alone, and everybody finds the same.
    """
    names = sorted(keys, key=lambda name: sha256(session + keys[name] + name.encode()).digest())
    count, half = len(names), around // 2
    if count - 1 <= around:
        return {name: tuple(sorted(set(names) - {name})) for name in names}
    return {
        name: tuple(sorted(names[(at + step) % count] for step in range(-half, half + 1) if step))
        for at, name in enumerate(names)
    }
