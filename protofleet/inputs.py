"""What a network takes: in a file of its own because a device that only classifies needs no more of
the contract.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from protofleet.errors import SettingError

Kind = Literal["image", "vector", "series"]


@dataclass(frozen=True)
class Input:
    """What a device feeds its network: images are uint8 H×W×C scaled to [0, 1], then (x − mean) /
    std per channel.
    """

    kind: Kind
    shape: tuple[int, ...]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        rank = {"image": 3, "vector": 1, "series": 2}[self.kind]
        if len(self.shape) != rank or min(self.shape) < 1:
            raise SettingError(
                f"input.shape: {list(self.shape)} is not the shape of one {self.kind} ({rank} sizes)"
            )
        if any(s <= 0 for s in self.std) or len(self.std) != len(self.mean):
            raise SettingError("input.std: one positive number per mean is due")
