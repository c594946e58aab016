"""What a laboratory's fleet did with each sample of a set: the run keeps it, so that whoever
measures later knows what nobody trained on.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from edge_agent.data.dataset import DataSet, Ints
from protofleet.errors import DataError

NOBODYS, TRAINED, TESTED = 0, 1, 2  # of no device; learned or chosen by; for measuring alone


@dataclass(frozen=True, eq=False)
class Usage:
    """A code for each row, and by what its set is known again."""

    codes: NDArray[np.uint8]
    labels: str

    @staticmethod
    def of(data: DataSet, trained: Ints, tested: Ints) -> Usage:
        """Of a set whose rows these are."""
        codes = np.full(len(data.y), NOBODYS, np.uint8)
        codes[tested] = TESTED
        codes[trained] = TRAINED
        return Usage(codes, _known_by(data))

    def fits(self, data: DataSet) -> bool:
        """Whether this is the set that it speaks of, at whatever size of its images."""
        return len(self.codes) == len(data.y) and self.labels == _known_by(data)

    def packed(self) -> bytes:
        """As it is kept."""
        out = io.BytesIO()
        np.savez_compressed(out, codes=self.codes, labels=np.array(self.labels))
        return out.getvalue()


def unpacked(data: bytes) -> Usage:
    """And back; `DataError` for what is none."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            codes, labels = stored["codes"], str(stored["labels"])
    except Exception as error:  # of zip, of numpy, a missing name
        raise DataError(f"which samples were used is not readable ({error})") from None
    return Usage(np.asarray(codes, np.uint8), labels)


def _known_by(data: DataSet) -> str:
    return sha256(data.name.encode() + np.ascontiguousarray(data.y, "<i8").tobytes()).hexdigest()
