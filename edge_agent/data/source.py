"""A device's own samples, from whatever its settings name, and how they fit the fleet's contract.

Class ids are the contract's, by name: a class that the fleet does not know is left out and named,
never guessed.
"""

from __future__ import annotations

import importlib
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_agent.config import DataSection
from edge_agent.data import folders, sets
from edge_agent.data.dataset import DataSet, Ints, Samples
from edge_agent.data.files import from_arrays
from protofleet.contract import Contract, Input
from protofleet.errors import DataError, FleetError

_ENTRY_POINT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, eq=False)
class Pool:
    """A data set, and which of its rows are this device's."""

    data: DataSet
    train: Ints
    validation: Ints
    test: Ints
    broken: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Split:
    """Samples and the contract's labels."""

    x: Samples
    y: Ints


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a device learns from and is measured on."""

    train: Split
    validation: Split
    test: Split
    left_out: Mapping[str, int]  # samples of classes that the fleet does not know


@dataclass(frozen=True)
class Survey:
    """What a device can say of its samples when it joins."""

    classes: tuple[str, ...]
    samples: int


def read(told: DataSection, data_dir: Path | None, wanted: Input | None = None) -> Pool:
    """Everything the settings name; images at the fleet's size once that is known."""
    size = _size(told, wanted)
    path = Path(told.source)
    broken: list[str] = []
    if _is_entry_point(told.source):
        data = _called(told.source, told.seed)
    elif path.is_dir() and not told.rows:
        listing = folders.listed(path, told.test_share)
        data, broken = folders.load(listing, size or folders.DEFAULT_SIZE)
    else:
        data = sets.load(
            told.source, data_dir=data_dir, seed=told.seed, image_size=told.image_size or None
        )
    if told.rows:
        return Pool(data, *_rows(Path(told.rows), len(data.y)))
    rows = np.arange(len(data.y))
    return Pool(data, rows[: data.n_train], rows[:0], rows[data.n_train :], tuple(broken))


def fit(pool: Pool, contract: Contract) -> Fitted:
    """The samples as this fleet takes them; one clear line if it cannot."""
    have, want = pool.data.input, contract.input
    if (have.kind, have.shape) != (want.kind, want.shape):
        raise DataError(
            f"{pool.data.name}: {_shape(have)}, but the fleet takes {_shape(want)}",
            "this device cannot train here",
        )
    ids = np.array(
        [contract.classes.index(c) if c in contract.classes else -1 for c in pool.data.classes],
        np.int64,
    )
    known = [_known(pool, rows, ids) for rows in (pool.train, pool.validation, pool.test)]
    left = np.concatenate([pool.train, pool.validation, pool.test])
    left = pool.data.y[left[ids[pool.data.y[left]] < 0]]
    names, counts = np.unique(left, return_counts=True)
    left_out = {pool.data.classes[i]: int(n) for i, n in zip(names, counts, strict=True)}
    if not len(known[0].y):
        words = f"{pool.data.name}: none of its classes is in the fleet's contract"
        raise DataError(
            words if left_out else f"{pool.data.name}: no sample to train on",
            _few(contract.classes),
        )
    return Fitted(known[0], known[1], known[2], left_out)


def survey(told: DataSection, data_dir: Path | None) -> Survey:
    """Classes and number of training samples; for a folder without opening an image."""
    path = Path(told.source)
    if path.is_dir() and not told.rows and not _is_entry_point(told.source):
        listing = folders.listed(path, told.test_share)
        return Survey(tuple(sorted({f.label for f in listing.train})), len(listing.train))
    pool = read(told, data_dir)
    held = np.unique(pool.data.y[pool.train])
    return Survey(tuple(pool.data.classes[i] for i in held), len(pool.train))


def _known(pool: Pool, rows: Ints, ids: Ints) -> Split:
    y = ids[pool.data.y[rows]]
    return Split(pool.data.x[rows[y >= 0]], y[y >= 0])


def _size(told: DataSection, wanted: Input | None) -> int:
    if wanted is None:
        return told.image_size
    square = wanted.kind == "image" and wanted.shape[0] == wanted.shape[1]
    return wanted.shape[0] if square else 0


def _is_entry_point(source: str) -> bool:
    return bool(_ENTRY_POINT.fullmatch(source)) and source.partition(":")[0] not in sets.NAMES


def _called(entry: str, seed: int) -> DataSet:
    """`module:function` returns a mapping as an `.npz` would hold it, or a `DataSet`."""
    module, _, name = entry.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        made = found()
        return made if isinstance(made, DataSet) else from_arrays(name, made, seed)
    except FleetError:
        raise
    except Exception as error:  # whatever a user's own code raises
        raise DataError(
            f"data source {entry}: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error


def _rows(path: Path, count: int) -> tuple[Ints, Ints, Ints]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            train, validation, test = (
                np.asarray(stored[k]).astype(np.int64) for k in ("train", "validation", "test")
            )
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: no indices train, validation and test in it ({error})") from None
    every = np.concatenate([train, validation, test])
    if every.size and (every.min() < 0 or every.max() >= count):
        raise DataError(f"{path}: rows up to {every.max()}, but the source has {count}")
    return train, validation, test


def _shape(kind: Input) -> str:
    return f"{kind.kind}s of {'×'.join(map(str, kind.shape))}"


def _few(classes: tuple[str, ...]) -> str:
    shown = ", ".join(classes[:8])
    return f"it has {shown}" + (" and more" if len(classes) > 8 else "")
