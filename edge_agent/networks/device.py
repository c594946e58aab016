"""Where a device computes: `auto` becomes what the machine has, a name that it lacks becomes one
clear line.
"""

from __future__ import annotations

import torch

from protofleet.errors import UsageError


def resolve_device(name: str) -> str:
    """`auto` as cuda, mps or cpu, the first that is there; any other name must be there."""
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(kind for kind, present in there.items() if present)
    if name not in there:
        raise UsageError(f"device {name!r} is not known", f"known: auto, {', '.join(there)}")
    if not there[name]:
        raise UsageError(
            f"device {name!r}: this machine, or this build of torch, has none", "take auto or cpu"
        )
    return name
