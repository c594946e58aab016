"""Bounds of plausibility hold one by one, for prototypes as for everything else."""

import numpy as np
import pytest

from coordinator.config import Bounds
from coordinator.uploads.validation import Expected, content
from protofleet import registry
from protofleet.values.prototypes import Prototypes, Tensors
from tests.coordinator.made import CONTRACT


def refused(bounds, part):
    want = Expected("orchard", "r1", registry.load("fedproto"), CONTRACT, bounds)
    found = content(want, {"prototypes": part}, talks=True)
    return found and found.code


@pytest.mark.parametrize(
    ("bounds", "code"),
    [
        (Bounds(largest=10, norm=100), None),
        (Bounds(largest=3, norm=100), "size"),
        (Bounds(largest=10, norm=5), "norm"),
        (Bounds(largest=3, norm=5), "norm"),
    ],
)
def test_a_prototype_is_held_to_its_length_and_to_its_largest_number(bounds, code):
    assert refused(bounds, Prototypes(np.array([1]), np.full((1, 4), -4.0))) == code


def test_tensors_are_held_to_their_largest_number():
    part = Tensors({"w": np.array([1.0, -4.0])})
    assert refused(Bounds(largest=3), part) == "size"
    assert refused(Bounds(largest=5), part) is None
