"""What a device sees at this moment, for a page beside whoever looks: the newest picture and its
feature in one small file, replaced whole.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_agent.recent.queue import LARGEST_PICTURE, AnsweredPicture
from edge_agent.updates import cache
from protofleet.util.files import OWN_FILE, own_folder, write_whole
from protofleet.values.prototypes import Floats

LARGEST = LARGEST_PICTURE + (1 << 20)  # bytes, with its feature


@dataclass(frozen=True, eq=False)
class Glance:
    """The newest picture: answered by whoever reads it, as the fleet may know more by then."""

    picture: bytes
    at: float
    source: str
    lineage: str
    feature: Floats


def glance_file(bundle: Path) -> Path:
    """Where it is."""
    return cache.recent_folder(bundle) / "now.bin"


def show(bundle: Path, sighting: AnsweredPicture) -> None:
    """This is what is seen now."""
    head = {
        "at": sighting.at,
        "source": sighting.source[:200],
        "lineage": sighting.lineage,
        "numbers": len(sighting.feature),
    }
    feature = np.ascontiguousarray(sighting.feature, "<f4").tobytes()
    data = json.dumps(head).encode() + b"\n" + feature + sighting.picture
    file = glance_file(bundle)
    own_folder(file.parent)
    with suppress(OSError):  # a full disk is no reason not to look
        write_whole(file, data, lasting=False, mode=OWN_FILE)


def read(bundle: Path) -> Glance | None:
    """What is seen now; nothing where nobody looks."""
    try:
        with glance_file(bundle).open("rb") as file:
            line, _, rest = file.read(LARGEST).partition(b"\n")
        head = json.loads(line)
        width = 4 * int(head["numbers"])
        feature = np.frombuffer(rest[:width], "<f4")
        return Glance(
            rest[width:], float(head["at"]), str(head["source"]), str(head["lineage"]), feature
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
