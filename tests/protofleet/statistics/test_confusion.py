"""Which class is taken for which adds up, travels, and is bounded."""

import numpy as np
import pytest

from protofleet.errors import FusionError
from protofleet.statistics.confusion import (
    MOST_CLASSES,
    Confusion,
    confusion,
    from_parts,
    parts_of,
    together,
)
from protofleet.statistics.held_out import HeldOut
from protofleet.values.prototypes import Tensors

SCORES = np.array([[2.0, 1.0, 0.0], [2.0, 1.0, -np.inf], [0.0, 1.0, 5.0]])


def out(labels=(0, 1, 2)):
    return HeldOut(SCORES, np.array(labels), np.zeros(3))


def test_rows_are_what_samples_are_and_columns_what_they_are_taken_for():
    own = confusion(out(), np.array([3, 5, 9]))
    assert own.classes.tolist() == [3, 5, 9]
    assert own.pairs.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]


def test_of_more_classes_than_anybody_reads_there_is_none():
    assert confusion(out(), np.arange(MOST_CLASSES + 1)) is None


def test_devices_of_other_classes_add_up_in_any_order():
    one = Confusion(np.array([0, 2]), np.array([[1, 2], [3, 4]]))
    two = Confusion(np.array([2, 5]), np.array([[10, 0], [0, 1]]))
    both, other = together(one, two), together(two, one)
    assert both.classes.tolist() == [0, 2, 5]
    assert both.pairs.tolist() == other.pairs.tolist() == [[1, 2, 0], [3, 14, 0], [0, 0, 1]]
    assert together(None, one) is together(one, None) is one


def test_it_is_read_as_it_was_written():
    own = confusion(out(), np.array([3, 5, 9]))
    again = from_parts(parts_of(own), 3)
    assert (again.classes.tolist(), again.pairs.tolist()) == ([3, 5, 9], own.pairs.tolist())
    assert from_parts(parts_of(None), 3) is None


@pytest.mark.parametrize(
    ("classes", "pairs"),
    [
        ([0, 1], [[1, 1], [1, 1]]),
        ([1, 0], [[1, 1], [1, 0]]),
        ([0, 0], [[1, 1], [1, 0]]),
        ([-1, 0], [[1, 1], [1, 0]]),
        ([0, 1], [[4, 0], [0, -1]]),
        ([0, 1], [[1, 1, 1]]),
        ([0], [[3.0]]),
        ([], np.zeros((0, 0), np.int64)),
        (list(range(MOST_CLASSES + 1)), np.eye(MOST_CLASSES + 1, dtype=np.int64)),
    ],
)
def test_what_cannot_be_is_refused(classes, pairs):
    part = Tensors({"classes": np.asarray(classes, np.int64), "pairs": np.asarray(pairs)})
    with pytest.raises(FusionError, match="confusion"):
        from_parts({"confusion": part}, 3)
