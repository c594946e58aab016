"""A device's own samples, from whatever its settings name, and how they fit the fleet's contract.

Class ids are the contract's, by name: a class that the fleet does not know is left out and named,
never guessed.
"""

from __future__ import annotations

import importlib
import re
import zipfile
from collections.abc import Mapping, Sequence
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

# One letter before the colon is a drive of Windows, and no module.
_ENTRY_POINT = re.compile(r"[A-Za-z_][\w.]+:[A-Za-z_][\w.]*")


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


def read(section: DataSection, data_dir: Path | None, fleet_input: Input | None = None) -> Pool:
    """Everything the settings name; images at the fleet's size once that is known."""
    size = _size(section, fleet_input)
    path = Path(section.source)
    broken: list[str] = []
    if _is_entry_point(section.source):
        data = _called(section.source, section.seed)
    elif path.is_dir() and not section.rows:
        # A folder may grow while we learn, so its split goes by the files' names (`folders`). With
        # rows it must not: they count on the order that the laboratory read it in.
        listing = folders.listed(path, section.test_share)
        data, broken = folders.load(listing, size or folders.DEFAULT_SIZE)
    else:
        data = sets.load(
            section.source,
            data_dir=data_dir,
            seed=section.seed,
            image_size=section.image_size or None,
        )
    if section.rows:
        return Pool(data, *_rows(Path(section.rows), len(data.y)))
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
    # The contract's id of each of our classes; -1 for one that the fleet does not know.
    ids = np.array(
        [contract.classes.index(c) if c in contract.classes else -1 for c in pool.data.classes],
        np.int64,
    )
    train, validation, test = (
        _in_contract(pool, rows, ids) for rows in (pool.train, pool.validation, pool.test)
    )
    labels = pool.data.y[np.concatenate([pool.train, pool.validation, pool.test])]
    strangers, counts = np.unique(labels[ids[labels] < 0], return_counts=True)
    left_out = {pool.data.classes[i]: int(n) for i, n in zip(strangers, counts, strict=True)}
    if not len(train.y):
        words = f"none of its classes ({_few(sorted(left_out))}) is in the fleet's contract"
        raise DataError(
            f"{pool.data.name}: {words if left_out else 'no sample to train on'}",
            f"it has {_few(contract.classes)}",
        )
    return Fitted(train, validation, test, left_out)


def survey(section: DataSection, data_dir: Path | None) -> Survey:
    """Classes and number of training samples; for a folder without opening an image."""
    path = Path(section.source)
    if path.is_dir() and not section.rows and not _is_entry_point(section.source):
        if not any(path.iterdir()):
            return Survey((), 0)  # a camera whose photos are yet to be named
        listing = folders.listed(path, section.test_share)
        return Survey(tuple(sorted({f.label for f in listing.train})), len(listing.train))
    pool = read(section, data_dir)
    classes = np.unique(pool.data.y[pool.train])
    return Survey(tuple(pool.data.classes[i] for i in classes), len(pool.train))


def _in_contract(pool: Pool, rows: Ints, ids: Ints) -> Split:
    y = ids[pool.data.y[rows]]
    return Split(pool.data.x[rows[y >= 0]], y[y >= 0])


def _size(section: DataSection, fleet_input: Input | None) -> int:
    if fleet_input is None:
        return section.image_size
    square = fleet_input.kind == "image" and fleet_input.shape[0] == fleet_input.shape[1]
    return fleet_input.shape[0] if square else 0


def _is_entry_point(source: str) -> bool:
    # `spiral:sigma` has the same form: a data set's name comes first.
    return bool(_ENTRY_POINT.fullmatch(source)) and source.partition(":")[0] not in sets.NAMES


def _called(entry: str, seed: int) -> DataSet:
    """`module:function` returns a mapping as an `.npz` would hold it, or a `DataSet`."""
    module, _, name = entry.partition(":")
    try:
        function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        samples = function()
        return samples if isinstance(samples, DataSet) else from_arrays(name, samples, seed)
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


def _few(classes: Sequence[str]) -> str:
    shown = ", ".join(classes[:8])
    return shown + (" and more" if len(classes) > 8 else "")
