"""`import torchvision`, also where it was built for CUDA and stands beside a CPU torch.

There its compiled operators do not load, and the import ends in "operator torchvision::nms does not
exist": two shape rules are registered for operators that nobody declared. Declaring them, without
code, is all the import needs; the networks use neither. Where torchvision is healthy this is a
plain import.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from protofleet.errors import UsageError

_MISSING = ("nms", "qnms")
_FORM = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


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
    import torch

    for name in _MISSING:
        # Only now, after a failed import: declaring what a healthy torchvision declares itself
        # would break that one.
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", _FORM)
    # The failed import left some of its parts behind; they are imported anew.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    return importlib.import_module("torchvision")
