import dataclasses

import numpy as np
import pytest

from protofleet.errors import ValueRefused
from protofleet.values.prototypes import (
    HandedOver,
    Head,
    Mixtures,
    Prototypes,
    SoftLabels,
    Tensors,
    count_floats,
)


def protos(**changes):
    given = {"classes": [0, 2], "vectors": [[1.0, 2.0], [3.0, 4.0]], "counts": [5, 6]} | changes
    return Prototypes(**given)


def test_rows_are_kept_in_the_order_of_their_class():
    one = Prototypes([2, 0, 2], [[1, 1], [2, 2], [3, 3]], [1, 2, 3])
    assert one.classes.tolist() == [0, 2, 2]
    assert one.vectors[:, 0].tolist() == [2, 1, 3]
    assert one.counts.tolist() == [2, 1, 3]


def test_values_are_equal_by_content_and_usable_as_keys():
    assert protos() == protos()
    assert protos() != protos(counts=None)
    assert protos() != protos(vectors=[[1.0, 2.0], [3.0, 4.5]])
    assert len({protos(), protos()}) == 1
    assert protos() != Head([0, 2], [[1, 2], [3, 4]], [5, 6])


def test_values_are_frozen_and_private():
    source = np.ones((2, 2), np.float32)
    one = protos(vectors=source)
    source[:] = 7
    assert one.vectors.max() == 1
    with pytest.raises(ValueError, match="read-only"):
        one.vectors[0, 0] = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.vectors = source


def test_negative_zero_is_zero():
    assert not np.signbit(protos(vectors=[[-0.0, 1], [2, 3]]).vectors).any()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: protos(vectors=[[1.0, np.nan], [3.0, 4.0]]),
            r"vectors\[0\]: 1 of 2 values is not finite",
        ),
        (lambda: protos(vectors=[[1e39, 1], [3.0, 4.0]]), "not finite"),
        (lambda: protos(classes=[0]), "vectors: 2 vectors for 1 rows"),
        (lambda: protos(classes=[0.5, 1]), "whole numbers"),
        (lambda: protos(classes=[-1, 1]), "negative"),
        (lambda: protos(counts=[-1, 1]), "negative"),
        (lambda: protos(vectors=[1.0, 2.0]), "1 dimensions where 2"),
        (lambda: Mixtures([0], [1.0], [[1.0]], [[0.0]], [3]), "not positive"),
        (lambda: Mixtures([0, 0], [0.5, 0.2], [[1.0], [2.0]], [[1.0], [1.0]], [3]), "sum to one"),
        (lambda: Mixtures([0, 1], [1, 1], [[1.0], [2.0]], [[1.0], [1.0]], [3]), "counts"),
        (lambda: Head([1, 1], [[1.0], [2.0]], [0, 0]), "one row a class"),
        (lambda: SoftLabels([0], [[0.5, 0.2]]), "sum to one"),
        (lambda: Tensors({"w": np.array([np.inf])}), "arrays.w: 1 of 1 values is not finite"),
    ],
)
def test_a_value_that_contradicts_itself_is_refused_in_one_line(make, words):
    with pytest.raises(ValueRefused, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_table_has_a_row_for_every_class_the_fleet_knows():
    rows, have = protos().table(4, 2)
    assert rows.shape == (4, 2)
    assert have.tolist() == [True, False, True, False]
    assert rows[2].tolist() == [3, 4]
    with pytest.raises(ValueRefused, match="table"):
        protos().table(2, 2)


def test_the_papers_count_floats_and_not_labels():
    parts = {"p": protos(), "t": Tensors({"w": np.zeros((3, 4), np.float32), "n": np.array(7)})}
    assert count_floats(parts) == 4 + 12


def test_numbers_that_are_handed_over_are_taken_without_a_copy_and_checked_all_the_same():
    rows = np.ones((2, 3), np.float32)
    taken = Prototypes(np.array([0, 1]), HandedOver(rows))
    assert taken.vectors is rows
    assert not rows.flags.writeable
    assert taken == Prototypes(np.array([0, 1]), np.ones((2, 3)))
    with pytest.raises(ValueRefused, match="not finite"):
        Prototypes(np.array([0]), HandedOver(np.full((1, 3), np.nan, np.float32)))
    with pytest.raises(ValueRefused, match="dimensions"):
        Prototypes(np.array([0]), HandedOver(np.ones(3, np.float32)))
    weights = np.ones(4, np.float32)
    assert Tensors({"w": HandedOver(weights)})["w"] is weights
