"""Fusions against numpy's weighted averages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.errors import FusionError
from protofleet.toolbox import fusions
from protofleet.values.prototypes import Prototypes, Tensors
from protofleet.values.sums import merge_all

C, D = 4, 3


@st.composite
def devices(draw):
    """Some devices, each with some classes, counts and a weight of its own."""
    fleet = []
    for seed in draw(st.lists(st.integers(0, 999), min_size=1, max_size=6)):
        rng = np.random.default_rng(seed)
        classes = np.flatnonzero(rng.integers(0, 2, C))
        vectors = rng.standard_normal((len(classes), D)).astype(np.float32)
        means = Prototypes(classes, vectors, rng.integers(1, 99, len(classes)))
        fleet.append((means, draw(st.integers(1, 5))))
    return fleet


@given(devices(), st.booleans())
def test_means_of_each_class_are_numpys_over_its_holders(fleet, by_count):
    total = merge_all(
        fusions.fold_means("p", means, weight, by_count=by_count) for means, weight in fleet
    )
    fused = fusions.means("p", total, None)
    rows = {
        c: [
            (
                means.only([c]).vectors[0],
                weight * (int(means.only([c]).counts[0]) if by_count else 1),
            )
            for means, weight in fleet
            if c in means.classes
        ]
        for c in range(C)
    }
    assert fused.classes.tolist() == [c for c in range(C) if rows[c]]
    for c, vector in zip(fused.classes, fused.vectors, strict=True):
        vectors, weights = zip(*rows[c], strict=True)
        expected = np.average(np.array(vectors, np.float64), axis=0, weights=weights)
        np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-6)


def test_a_class_that_nobody_sent_keeps_what_it_had():
    before = Prototypes([0, 1, 3], [[9.0], [8.0], [7.0]])
    total = fusions.fold_means("p", Prototypes([1, 2], [[1.0], [2.0]]), 1, by_count=False)
    assert fusions.means("p", total, before) == Prototypes([0, 1, 2, 3], [[9], [1], [2], [7]])
    assert fusions.means("p", {}, before) is before
    assert fusions.means("p", {}, None).classes.size == 0


def test_a_count_of_zero_is_a_class_not_sent():
    means = Prototypes([0, 1], [[5.0], [6.0]], [0, 2])
    total = fusions.fold_means("p", means, 1, by_count=True)
    assert fusions.means("p", total, None) == Prototypes([1], [[6.0]])
    before = Prototypes([0], [[3.0]])
    assert fusions.means("p", total, before) == Prototypes([0, 1], [[3.0], [6.0]])


def test_two_means_of_a_class_or_weights_without_counts_are_refused():
    with pytest.raises(FusionError, match="one mean a class"):
        fusions.fold_means("p", Prototypes([1, 1], [[1.0], [2.0]]), 1, by_count=False)
    with pytest.raises(FusionError, match="counts are due"):
        fusions.fold_means("p", Prototypes([1], [[1.0]]), 1, by_count=True)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9)), min_size=1, max_size=5))
def test_tensors_of_any_shape_average_as_numpys(fleet):
    def tensors(seed):
        rng = np.random.default_rng(seed)
        shapes = {"a": (), "b.weight": (2, 3), "b.bias": (3,)}
        return Tensors({k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()})

    total = merge_all(fusions.fold_tensors("w", tensors(seed), n) for seed, n in fleet)
    mean = fusions.mean_tensors("w", total)
    weights = [n for _, n in fleet]
    for name, array in mean.arrays.items():
        every = np.stack([tensors(seed)[name].astype(np.float64) for seed, _ in fleet])
        expected = np.average(every, axis=0, weights=weights)
        assert array.shape == expected.shape
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)


def test_rows_keep_models_apart_and_names_that_only_begin_alike_do_too():
    total = merge_all(
        [
            fusions.fold_tensors("w", Tensors({"a": np.float32(1)}), 1, row=0),
            fusions.fold_tensors("w", Tensors({"a": np.float32(5)}), 3, row=2),
            fusions.fold_tensors("w2", Tensors({"a": np.float32(7)}), 1),
        ]
    )
    assert float(fusions.mean_tensors("w", total, 0)["a"]) == 1
    assert float(fusions.mean_tensors("w", total, 2)["a"]) == 5
    assert fusions.mean_tensors("w", total, 1) is None
    assert set(fusions.mean_tensors("w2", total).arrays) == {"a"}
    assert fusions.mean_tensors("w", {}) is None
