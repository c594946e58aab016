"""The vocabulary: the values that devices send and the coordinator publishes.

Every value checks itself when it is made, holds its numbers as read-only float32 or int64 arrays,
and is equal to another by content. How precisely a value travels is not its business:
`protofleet.wire` decides that per field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protofleet.errors import ValueRefused

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
T = TypeVar("T")
_ZERO = np.float32(0.0)


class HandedOver(NamedTuple):
    """Numbers made for the value that takes them: float32, nobody else's, no −0.0 among them; a
    decoder has just made them, and another copy is a fortieth of what an upload costs.
    """

    array: Floats


def floats(name: str, values: ArrayLike | HandedOver, ndim: int | None = None) -> Floats:
    """A private, read-only float32 copy of finite values; −0.0 becomes 0.0 so that equal values
    have equal bytes.
    """
    handed_over = isinstance(values, HandedOver)
    if isinstance(values, HandedOver):
        values = values.array
    elif not isinstance(values, np.ndarray) or values.dtype != np.float32:
        with np.errstate(over="ignore"):
            values = np.asarray(values, dtype=np.float32)
    if ndim is not None and values.ndim != ndim:
        raise ValueRefused(f"{name}: {values.ndim} dimensions where {ndim} are due")
    finite = np.isfinite(values)
    if np.count_nonzero(finite) != finite.size:
        raise ValueRefused(_not_finite(name, finite))
    # The sum is the copy.
    array: Floats = values if handed_over else np.asarray(np.add(values, _ZERO, order="C"))
    array.setflags(write=False)
    return array


def _not_finite(name: str, finite: NDArray[np.bool_]) -> str:
    """How many values are bad, and for rows which is the first to hold one."""
    row = ""
    if finite.ndim > 1:
        first = int(np.argmin(finite.reshape(len(finite), -1).all(axis=1)))
        finite, row = finite[first], f"[{first}]"
    bad = int(finite.size - finite.sum())
    return f"{name}{row}: {bad} of {finite.size} value{'s are' if bad > 1 else 's is'} not finite"


def ints(name: str, values: ArrayLike, ndim: int | None = 1) -> Ints:
    """A private, read-only int64 copy."""
    raw = np.asarray(values)
    if raw.dtype == np.int64:
        array = raw.copy()
    else:
        if raw.size and raw.dtype.kind not in "iu":
            raise ValueRefused(f"{name}: whole numbers are due, not {raw.dtype}")
        if raw.dtype == np.uint64 and raw.size and raw.max() > np.iinfo(np.int64).max:
            raise ValueRefused(f"{name}: a number does not fit 64 signed bits")
        array = np.array(raw, dtype=np.int64, order="C")
    if ndim is not None and array.ndim != ndim:
        raise ValueRefused(f"{name}: {array.ndim} dimensions where {ndim} are due")
    array.setflags(write=False)
    return array


def _content(value: Any) -> Any:
    """What equality and hashing look at: nested tuples of names, shapes and bytes."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, Mapping):
        return tuple((key, _content(value[key])) for key in sorted(value))
    if dataclasses.is_dataclass(value):
        return (
            type(value).__name__,
            *(_content(getattr(value, f.name)) for f in dataclasses.fields(value)),
        )
    return value


@dataclass_transform(frozen_default=True, eq_default=False)
def value(cls: type[T]) -> type[T]:
    """A frozen dataclass that is equal to another of its kind by content, arrays included."""

    def eq(self: Any, other: object) -> bool:
        return type(other) is type(self) and bool(_content(self) == _content(other))

    # The dataclass's own == would compare arrays, whose answer is an array.
    frozen: Any = dataclass(frozen=True, eq=False)(cls)
    frozen.__eq__ = eq
    frozen.__hash__ = lambda self: hash(_content(self))
    return frozen  # type: ignore[no-any-return]


def _same_length(name: str, first: NDArray[Any], second: NDArray[Any], what: str) -> None:
    if len(first) != len(second):
        raise ValueRefused(f"{name}: {len(second)} {what} for {len(first)} rows")


def _sort_rows(target: Any, by: Ints, *names: str) -> None:
    """Put rows in the order of their class, keeping the order within a class."""
    ids = by.tolist()  # there are few: numpy would take longer over them
    ordered = sorted(ids)
    if ids != ordered:
        order = np.argsort(by, kind="stable")
        for name in names:
            rows = getattr(target, name)
            if rows is not None:
                _set(target, name, _frozen(rows[order]))
    if ordered and ordered[0] < 0:
        raise ValueRefused("classes: a class id is negative")


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _set(target: Any, name: str, to: Any) -> None:
    object.__setattr__(target, name, to)


@value
class Prototypes:
    """Points that stand for classes: one row each, any number of rows a class, sorted by class.

    `counts` says how many samples stand behind each row; a method that keeps counts private leaves
    it out.
    """

    classes: Ints
    vectors: Floats
    counts: Ints | None = None

    def __post_init__(self) -> None:
        classes, vectors = ints("classes", self.classes), floats("vectors", self.vectors, 2)
        # One such value is made for every upload: all at once is quicker than one by one.
        vars(self).update(classes=classes, vectors=vectors)
        _same_length("vectors", classes, vectors, "vectors")
        if self.counts is not None:
            counts = ints("counts", self.counts)
            _set(self, "counts", counts)
            _same_length("counts", classes, counts, "counts")
            if min(counts.tolist(), default=0) < 0:
                raise ValueRefused("counts: a count is negative")
        _sort_rows(self, classes, "vectors", "counts", "classes")

    @property
    def dim(self) -> int:
        """The embedding size d."""
        return int(self.vectors.shape[1])

    def only(self, classes: ArrayLike) -> Prototypes:
        """The rows of these classes."""
        keep = np.isin(self.classes, np.asarray(classes))
        counts = None if self.counts is None else self.counts[keep]
        return Prototypes(self.classes[keep], self.vectors[keep], counts)

    def table(self, n_classes: int, dim: int) -> tuple[Floats, NDArray[np.bool_]]:
        """One row a class id, and which ids have one: what a loss looks labels up in. One prototype
        a class only.
        """
        if len(np.unique(self.classes)) != len(self.classes):
            raise ValueRefused("classes: a table wants one prototype a class")
        if self.classes.size and (self.classes[-1] >= n_classes or self.dim != dim):
            raise ValueRefused(
                f"prototypes of class ≤ {self.classes[-1]}, d {self.dim} in a table"
                f" {n_classes} × {dim}"
            )
        rows = np.zeros((n_classes, dim), np.float32)
        have = np.zeros(n_classes, np.bool_)
        rows[self.classes] = self.vectors
        have[self.classes] = True
        return rows, have


@value
class Mixtures:
    """Diagonal Gaussian mixtures, a component a row, sorted by class; `counts` has one entry per
    distinct class.

    Component weights sum to one within a class.
    """

    classes: Ints
    weights: Floats
    means: Floats
    variances: Floats
    counts: Ints

    def __post_init__(self) -> None:
        _set(self, "classes", ints("classes", self.classes))
        _set(self, "weights", floats("weights", self.weights, 1))
        _set(self, "means", floats("means", self.means, 2))
        _set(self, "variances", floats("variances", self.variances, 2))
        _set(self, "counts", ints("counts", self.counts))
        for name in ("weights", "means", "variances"):
            _same_length(name, self.classes, getattr(self, name), name)
        if self.means.shape != self.variances.shape:
            raise ValueRefused(
                f"variances: shape {self.variances.shape} beside means {self.means.shape}"
            )
        if self.variances.size and self.variances.min() <= 0:
            raise ValueRefused("variances: a variance is not positive")
        if self.weights.size and self.weights.min() < 0:
            raise ValueRefused("weights: a component weight is negative")
        _sort_rows(self, self.classes, "weights", "means", "variances", "classes")
        distinct, first = np.unique(self.classes, return_index=True)
        _same_length("counts", distinct, self.counts, "counts")
        if self.counts.size and self.counts.min() < 0:
            raise ValueRefused("counts: a count is negative")
        with np.errstate(over="ignore"):
            off = np.abs(np.add.reduceat(self.weights, first) - 1).max() if distinct.size else 0.0
        if off > 1e-2:
            raise ValueRefused("weights: they do not sum to one within each class")

    @property
    def dim(self) -> int:
        """The embedding size d."""
        return int(self.means.shape[1])


@value
class Head:
    """A linear classifier, a row a class."""

    classes: Ints
    weight: Floats
    bias: Floats

    def __post_init__(self) -> None:
        _set(self, "classes", ints("classes", self.classes))
        _set(self, "weight", floats("weight", self.weight, 2))
        _set(self, "bias", floats("bias", self.bias, 1))
        _same_length("weight", self.classes, self.weight, "rows")
        _same_length("bias", self.classes, self.bias, "biases")
        if len(np.unique(self.classes)) != len(self.classes):
            raise ValueRefused("classes: a head has one row a class")
        _sort_rows(self, self.classes, "weight", "bias", "classes")

    def only(self, classes: ArrayLike) -> Head:
        """The rows of these classes."""
        keep = np.isin(self.classes, np.asarray(classes))
        return Head(self.classes[keep], self.weight[keep], self.bias[keep])


@value
class SoftLabels:
    """For each class a distribution over all the fleet's classes, a row a class."""

    classes: Ints
    probabilities: Floats

    def __post_init__(self) -> None:
        _set(self, "classes", ints("classes", self.classes))
        _set(self, "probabilities", floats("probabilities", self.probabilities, 2))
        _same_length("probabilities", self.classes, self.probabilities, "rows")
        if len(np.unique(self.classes)) != len(self.classes):
            raise ValueRefused("classes: soft labels have one row a class")
        if self.probabilities.size:
            if self.probabilities.min() < 0:
                raise ValueRefused("probabilities: one is negative")
            with np.errstate(over="ignore"):
                off = np.abs(self.probabilities.sum(1) - 1).max()
            if off > 1e-2:
                raise ValueRefused("probabilities: a row does not sum to one")
        _sort_rows(self, self.classes, "probabilities", "classes")


@value
class Tensors:
    """Named arrays: a model's weights, or the statistics a method sends beside them. float32 or
    int64 each.
    """

    arrays: Mapping[str, Floats | Ints]

    def __post_init__(self) -> None:
        checked: dict[str, Floats | Ints] = {}
        for name in sorted(self.arrays):
            given: Any = self.arrays[name]
            array = given if isinstance(given, HandedOver) else np.asarray(given)
            whole = isinstance(array, np.ndarray) and array.dtype.kind in "iu"
            checked[name] = (ints if whole else floats)(f"arrays.{name}", array, None)
        _set(self, "arrays", MappingProxyType(checked))

    def __getitem__(self, name: str) -> Floats | Ints:
        return self.arrays[name]

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Tensors], tuple[dict[str, Any]]]:
        return Tensors, (dict(self.arrays),)


Part = Prototypes | Mixtures | Head | SoftLabels | Tensors
Parts = Mapping[str, Part]


def count_floats(parts: Parts) -> int:
    """How many real numbers these parts hold: the papers' measure of communication (counts and ids
    are free).
    """
    total = 0
    for part in parts.values():
        arrays = part.arrays.values() if isinstance(part, Tensors) else vars(part).values()
        total += sum(a.size for a in arrays if isinstance(a, np.ndarray) and a.dtype == np.float32)
    return total
