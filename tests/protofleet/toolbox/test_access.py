"""Parts read out of uploads and states: there and of their kind, or one clear line."""

import math

import numpy as np
import pytest

from protofleet.errors import FusionError, ValueRefused
from protofleet.toolbox.access import as_given, find, need, one_number
from protofleet.values.prototypes import Prototypes, Tensors

MEANS = Prototypes([2, 0], [[5.0, 6.0], [1.0, 2.0]])
PARTS = {"prototypes": MEANS, "data": Tensors({"samples": np.array(7)})}


def test_a_part_is_found_or_missing_and_another_kind_is_an_error_either_way():
    assert find(PARTS, "prototypes", Prototypes) is need(PARTS, "prototypes", Prototypes) is MEANS
    assert find(PARTS, "weights", Tensors) is None
    with pytest.raises(FusionError, match="'weights' is missing; there are: data, prototypes"):
        need(PARTS, "weights", Tensors)
    with pytest.raises(FusionError, match="there are: none"):
        need({}, "weights", Tensors)
    for read in (find, need):
        with pytest.raises(FusionError, match="Tensors is due, not Prototypes"):
            read(PARTS, "prototypes", Tensors)


@pytest.mark.parametrize("number", [3, 3.0, [3], [[3.0]]])
def test_one_number_is_one_number_in_any_wrapping(number):
    assert one_number({"data": Tensors({"n": np.array(number)})}, "data", "n", 3) == 3


@pytest.mark.parametrize(
    "arrays",
    [
        {"n": np.array(2)},  # less than the least
        {"n": np.array(-(2**62))},
        {"n": np.array([3, 3])},
        {"n": np.zeros(0)},
        {"m": np.array(3)},
        {"n": np.array(3), "m": np.array(3)},  # nobody would read the other
        {},
    ],
)
def test_anything_else_is_refused(arrays):
    with pytest.raises(FusionError, match=r"data\.n: one number from 3 up is due"):
        one_number({"data": Tensors(arrays)}, "data", "n", 3)


def test_no_number_at_all_never_gets_as_far():
    with pytest.raises(ValueRefused, match="not finite"):
        Tensors({"n": np.array(math.nan)})


def test_prototypes_are_looked_up_by_class_id_and_absent_ones_weigh_nothing():
    constants = as_given(MEANS, 4, 2)
    assert constants["prototypes"].tolist() == [[1, 2], [0, 0], [5, 6], [0, 0]]
    assert constants["have"].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("nothing", [None, Prototypes(np.zeros(0, np.int64), np.zeros((0, 2)))])
def test_without_prototypes_shapes_and_types_are_those_with_them(nothing):
    some, none = as_given(MEANS, 4, 2), as_given(nothing, 4, 2)
    assert {k: (a.shape, a.dtype) for k, a in none.items()} == {
        k: (a.shape, a.dtype) for k, a in some.items()
    }
    assert not any(array.any() for array in none.values())


@pytest.mark.parametrize(("n_classes", "dim"), [(2, 2), (4, 3)])
def test_prototypes_that_do_not_fit_the_fleet_are_refused(n_classes, dim):
    with pytest.raises(ValueRefused, match=f"table {n_classes} × {dim}"):
        as_given(MEANS, n_classes, dim)
