"""Pictures that tell the time: which one is shown follows from the clock, so an answer to a frame
says, from outside, how old that frame was.
"""

# Theory of operation
#
# K pictures, each of another class, are shown in turn, SLOT seconds each, by the machine's clock:
# number ⌊t / SLOT⌋ mod K at t. An answer of class k that is read at t was given to a frame that was
# shown in a slot of k's, the latest of which ended at most K · SLOT before t. So
#
#   age ≥ t − (end of the latest slot of k that began before t), and 0 where that slot still lasts
#
# whatever the frame says of itself, and with all that the server, the line and both processes hold
# back in it. A frame older than (K − 1) · SLOT looks younger than it is: K · SLOT is far above what
# is asked for.

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import UsageError

SLOT = 0.25  # seconds
WIDTH, HEIGHT = 320, 240


@dataclass(frozen=True, eq=False)
class Slides:
    """Pictures [K, height, width, 3], and the class of each."""

    pictures: NDArray[np.uint8]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.labels)) != len(self.pictures) or len(self.labels) < 4:
            raise UsageError("slides: at least four pictures are due, each of another class")

    def at(self, moment: float) -> int:
        """Which one is shown at this moment of the machine's clock."""
        return math.floor(moment / SLOT) % len(self.labels)

    def age(self, label: str, moment: float) -> float:
        """How old a frame of this class is at least, whose answer is read now."""
        slot, own, every = math.floor(moment / SLOT), self.labels.index(label), len(self.labels)
        back = (slot - own) % every
        # `back` slots ago it was shown, until the end of that slot.
        return 0.0 if not back else moment - (slot - back + 1) * SLOT

    def write(self, file: Path) -> Path:
        """All pictures, one after the other, as a server reads them."""
        file.write_bytes(np.ascontiguousarray(self.pictures).tobytes())
        return file


def painted(count: int, seed: int = 0) -> Slides:
    """Made up: a colour of its own for each, and coarse noise that a JPEG keeps."""
    rng = np.random.default_rng(seed)
    colours = rng.integers(30, 226, (count, 1, 1, 3))
    noise = rng.normal(0, 25, (count, HEIGHT // 16, WIDTH // 16, 3)).repeat(16, 1).repeat(16, 2)
    pictures = np.clip(colours + noise, 0, 255).astype(np.uint8)
    return Slides(pictures, tuple(f"class-{k}" for k in range(count)))
