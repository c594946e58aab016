"""Features of samples in a file, by the hash of each sample's content: a photo costs one embedding
in a device's life with an extractor.

The file is a row of records of one length, the hash and the feature as float32, and it only grows;
a record that a crash tore is cut off at the next start.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from protofleet.util.files import OWN_FILE, own_folder, write_whole
from protofleet.values.prototypes import Floats

_HASH = 32  # bytes
ROOM = 2  # a file with more than so many records for each that is used is written anew


class FeatureCache:
    """The features of one extractor, `width` numbers each."""

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self._record = np.dtype([("key", "u1", _HASH), ("feature", "<f4", width)])
        self._rows: dict[str, Floats] = {}
        own_folder(path.parent)
        data = path.read_bytes() if path.exists() else b""
        whole = len(data) // self._record.itemsize
        for record in np.frombuffer(data, self._record, whole):
            self._rows[record["key"].tobytes().hex()] = record["feature"]
        if len(data) != whole * self._record.itemsize:
            os.truncate(path, whole * self._record.itemsize)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def keys(self) -> list[str]:
        """Of all that are there, the oldest first."""
        return list(self._rows)

    def add(self, key: str, feature: Floats) -> None:
        """Remember one; on disk before this returns."""
        record = np.zeros(1, self._record)
        record["key"][0] = np.frombuffer(bytes.fromhex(key), np.uint8)
        record["feature"][0] = feature
        with os.fdopen(os.open(self.path, _APPEND, OWN_FILE), "ab") as file:
            file.write(record.tobytes())
        self._rows[key] = record["feature"][0]

    def of(self, keys: Sequence[str]) -> Floats:
        """The features of these, a row each."""
        rows = np.empty((len(keys), self._record["feature"].shape[0]), np.float32)
        for place, key in enumerate(keys):
            rows[place] = self._rows[key]
        return rows

    def tidy(self, used: Collection[str]) -> None:
        """Forget what nobody uses, once it is most of the file."""
        if len(self._rows) > ROOM * len(used):
            self.remove(set(self._rows) - set(used))

    def remove(self, keys: Collection[str]) -> None:
        """Forget these."""
        unused = set(keys)
        rows = {key: row for key, row in self._rows.items() if key not in unused}
        records = np.zeros(len(rows), self._record)
        for place, (key, row) in enumerate(rows.items()):
            records["key"][place] = np.frombuffer(bytes.fromhex(key), np.uint8)
            records["feature"][place] = row
        write_whole(self.path, records.tobytes(), mode=OWN_FILE)
        self._rows = rows


_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
