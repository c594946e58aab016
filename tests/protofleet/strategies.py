"""Hypothesis strategies for the vocabulary, for every test that needs some value of a kind.

Sizes are small and numbers are plain float32 of moderate size unless a test asks for more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from protofleet.values.prototypes import Head, Mixtures, Parts, Prototypes, SoftLabels, Tensors

names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=12)


def numbers(peak: float = 1e4) -> st.SearchStrategy[float]:
    """Finite float32 numbers up to ±peak."""
    peak = float(np.float32(peak))
    return st.floats(-peak, peak, width=32)


def floats(shape: Any, peak: float = 1e4) -> st.SearchStrategy[Any]:
    return hnp.arrays(np.float32, shape, elements=numbers(peak))


def ints(shape: Any, low: int = -(2**63), high: int = 2**63 - 1) -> st.SearchStrategy[Any]:
    return hnp.arrays(np.int64, shape, elements=st.integers(low, high))


class_ids = st.one_of(st.integers(0, 9), st.integers(0, 65_535))


@st.composite
def prototypes(
    draw: st.DrawFn, peak: float = 1e4, max_rows: int = 6, max_dim: int = 8
) -> Prototypes:
    classes = draw(st.lists(class_ids, max_size=max_rows))
    vectors = draw(floats((len(classes), draw(st.integers(1, max_dim))), peak))
    counts = draw(st.none() | ints(len(classes), 0, 2**40))
    return Prototypes(np.array(classes, np.int64), vectors, counts)


@st.composite
def mixtures(draw: st.DrawFn, peak: float = 1e4, max_dim: int = 6) -> Mixtures:
    distinct = draw(st.lists(class_ids, max_size=4, unique=True))
    components = draw(st.lists(st.integers(1, 3), min_size=len(distinct), max_size=len(distinct)))
    classes = np.repeat(np.array(sorted(distinct), np.int64), components)
    shares = np.concatenate([draw(_distributions(1, n))[0] for n in components] or [np.zeros(0)])
    shape = (len(classes), draw(st.integers(1, max_dim)))
    variances = hnp.arrays(
        np.float32, shape, elements=st.floats(float(np.float32(1e-6)), 100, width=32)
    )
    counts = draw(ints(len(distinct), 0, 2**40))
    return Mixtures(classes, shares, draw(floats(shape, peak)), draw(variances), counts)


@st.composite
def heads(draw: st.DrawFn, peak: float = 1e4) -> Head:
    classes = draw(st.lists(class_ids, max_size=5, unique=True))
    shape = (len(classes), draw(st.integers(1, 6)))
    return Head(
        np.array(classes, np.int64), draw(floats(shape, peak)), draw(floats(len(classes), peak))
    )


@st.composite
def softlabels(draw: st.DrawFn) -> SoftLabels:
    classes = draw(st.lists(class_ids, max_size=5, unique=True))
    return SoftLabels(
        np.array(classes, np.int64), draw(_distributions(len(classes), draw(st.integers(1, 6))))
    )


def tensors(peak: float = 1e30) -> st.SearchStrategy[Tensors]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
    return st.dictionaries(names, floats(shapes, peak) | ints(shapes), max_size=3).map(Tensors)


def parts(peak: float = 1e4) -> st.SearchStrategy[Parts]:
    """A map of up to three parts of any kind."""
    any_part = st.one_of(prototypes(peak), mixtures(peak), heads(peak), softlabels(), tensors())
    return st.dictionaries(names, any_part, max_size=3)


def documents() -> st.SearchStrategy[dict[str, Any]]:
    """Plain maps as they travel in control messages."""
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
        st.text(max_size=20),
    )
    inner = st.recursive(
        scalars,
        lambda x: st.lists(x, max_size=3) | st.dictionaries(names, x, max_size=3),
        max_leaves=8,
    )
    return st.dictionaries(names, inner, max_size=4)


def _distributions(rows: int, width: int) -> st.SearchStrategy[Any]:
    positive = hnp.arrays(np.float64, (rows, width), elements=st.floats(0.001, 1))
    return positive.map(lambda x: x / x.sum(axis=1, keepdims=True))
