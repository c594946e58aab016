"""What this machine's torch can do: where it computes, and `import torchvision` whatever it was
built for.

A torchvision built for CUDA does not import beside a CPU torch: its compiled operators do not load,
and the import ends in "operator torchvision::nms does not exist".
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import torch

from protofleet.errors import UsageError

# The two operators for which torchvision registers shape rules in Python. Declaring them without
# any code behind them is all its import needs, and no network of ours calls either.
_UNDECLARED = ("nms", "qnms")
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def torchvision() -> ModuleType:
    """The torchvision module; one line that says what to install when there is none."""
    try:
        return importlib.import_module("torchvision")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{error.name} is not installed", "pip install 'protofleet[train]'"
        ) from error
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    for name in _UNDECLARED:
        # Only now, after a failed import: declaring what a healthy torchvision declares itself
        # would break that one.
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", _SIGNATURE)
    # The failed import left some of its parts in sys.modules; half of them would be found there and
    # the other half imported anew, so all go first.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    return importlib.import_module("torchvision")


def resolve_device(name: str) -> str:
    """`auto` as cuda, mps or cpu, the first that is there; any other name must be there."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(kind for kind, present in available.items() if present)
    if name not in available:
        raise UsageError(f"device {name!r} is not known", f"known: auto, {', '.join(available)}")
    if not available[name]:
        raise UsageError(
            f"device {name!r}: this machine, or this build of torch, has none", "take auto or cpu"
        )
    return name
