"""The last unknown things that a device saw: a feature and a small picture of each, on this device
and nowhere else.

Beside a bundle `B` lies the folder `B.unknowns/<lineage>/`: `features.bin`, the newest last, a
picture `<key>.jpg` for each, and `clusters.json`, as they were listed last. It holds so many; for
each new one the oldest goes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_agent.contributing.features import FeatureCache
from edge_agent.updates.cache import unknowns_folder
from protofleet.util.files import OWN_FILE, own_file, write_whole
from protofleet.values.prototypes import Floats

MOST = 500  # 1,280 numbers and a thumbnail each: 4 MB
SIDE = 96  # pixels of a picture


class UnknownRing:
    """The unknown things of one extractor, `width` numbers each."""

    def __init__(self, bundle: Path, lineage: str, width: int, most: int = MOST) -> None:
        name = sha256(lineage.encode()).hexdigest()[:16]
        self.folder, self._most = unknowns_folder(bundle) / name, most
        self._cache = FeatureCache(self.folder / "features.bin", width)

    @property
    def keys(self) -> list[str]:
        """Of all that are there, the oldest first."""
        return self._cache.keys

    def features(self, keys: Sequence[str]) -> Floats:
        """Of these, a row each."""
        return self._cache.of(keys)

    def picture(self, key: str) -> Path:
        """Where its picture is."""
        return self.folder / f"{key[:32]}.jpg"

    def add(self, feature: Floats, image: NDArray[Any]) -> None:
        """Remember one; the same picture is remembered once."""
        key = sha256(np.ascontiguousarray(image).tobytes()).hexdigest()
        if key in self._cache:
            return
        self._cache.add(key, feature)
        if image.ndim == 3 and image.dtype == np.uint8:
            self._draw(image, self.picture(key))
        # A stretch at a time: the file is written anew for it.
        if len(self._cache) > self._most + self._most // 4:
            self.forget(self.keys[: -self._most])

    def forget(self, keys: Sequence[str]) -> None:
        """These are known now, or too old."""
        self._cache.remove(keys)
        for key in keys:
            self.picture(key).unlink(missing_ok=True)

    def list_clusters(self, clusters: Sequence[Sequence[str]]) -> None:
        """Remember which number means what, for whoever names one."""
        document = json.dumps([list(cluster) for cluster in clusters]).encode()
        write_whole(self.folder / "clusters.json", document, mode=OWN_FILE)

    def cluster(self, number: int) -> list[str]:
        """What was listed under this number, as far as it is still there; none if nothing was."""
        with suppress(OSError, ValueError, IndexError):
            document = json.loads((self.folder / "clusters.json").read_text())
            return [key for key in document[number - 1] if number > 0 and key in self._cache]
        return []

    def _draw(self, image: NDArray[Any], path: Path) -> None:
        from PIL import Image

        flat = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).convert("RGB")
        flat.thumbnail((SIDE, SIDE))
        flat.save(own_file(path), "JPEG", quality=80)
