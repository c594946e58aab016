"""Pictures that a device saw, for tests of what remembers them."""

import io

import numpy as np
from PIL import Image

from edge_agent.recent.queue import AnsweredPicture
from tests.networks import pictures

LINEAGE, WIDTH = "extractor:a", 4


def jpeg(seed, n=0):
    """A picture of a colour of its own."""
    file = io.BytesIO()
    Image.fromarray(pictures(seed, n + 1)[n]).save(file, "JPEG")
    return file.getvalue()


def sighting(n=0, *, at=1000.0, probability=0.4, unknown=False, seed=1, lineage=LINEAGE):
    """One of many that differ."""
    feature = np.full(WIDTH, n, np.float32)
    return AnsweredPicture(
        jpeg(seed, n), "mug", probability, unknown, at + n, "door", lineage, feature
    )
