"""Bounds of plausibility hold one by one, for prototypes as for everything else."""

import numpy as np
import pytest

from coordinator.config import UploadLimits
from coordinator.uploads.validation import Expected, content
from protofleet import registry
from protofleet.statistics.contribution import Grid, contribution, parts_of
from protofleet.values.prototypes import Mixtures, Prototypes, Tensors
from tests.coordinator.made import CONTRACT


def refused(limits, part, name="prototypes", method="fedproto"):
    want = Expected("orchard", "r1", registry.load(method), CONTRACT, limits)
    found = content(want, part if isinstance(part, dict) else {name: part}, talks=True)
    return found and found.code


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (UploadLimits(largest=10, norm=100), None),
        (UploadLimits(largest=3, norm=100), "size"),
        (UploadLimits(largest=10, norm=5), "norm"),
        (UploadLimits(largest=3, norm=5), "norm"),
    ],
)
def test_a_prototype_is_held_to_its_length_and_to_its_largest_number(limits, code):
    assert refused(limits, Prototypes(np.array([1]), np.full((1, 4), -4.0))) == code


def test_samples_are_held_to_a_class_and_to_all_classes_together():
    part = Prototypes(np.array([0, 1]), np.ones((2, 4)), np.array([7, 6]))
    assert refused(UploadLimits(count=6), part) == "count"
    assert refused(UploadLimits(count=7, samples=12), part) == "count"
    assert refused(UploadLimits(count=7, samples=13), part) is None
    weight = Tensors({"samples": np.array(14)})
    assert refused(UploadLimits(samples=13), weight, "data", "fedavg") == "count"
    assert refused(UploadLimits(samples=14), weight, "data", "fedavg") is None


def test_a_mixture_is_held_to_its_means_and_to_the_trace_of_its_variances():
    part = Mixtures(
        np.array([0]), np.ones(1), np.full((1, 4), 3.0), np.full((1, 4), 2.0), np.array([5])
    )
    assert refused(UploadLimits(norm=5.9), part, "mixtures", "gfpl") == "norm"
    assert refused(UploadLimits(trace=7.9), part, "mixtures", "gfpl") == "trace"
    assert refused(UploadLimits(norm=6, trace=8), part, "mixtures", "gfpl") is None


def test_tensors_are_held_to_their_largest_number():
    part = Tensors({"w": np.array([1.0, -4.0])})
    assert refused(UploadLimits(largest=3), part) == "size"
    assert refused(UploadLimits(largest=5), part) is None


def test_a_factor_is_held_to_its_trace_a_sample():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 4)) * 3.0
    parts = dict(parts_of(contribution(x, np.zeros(80, np.int64), Grid())))
    true = float(((x - x.mean(0)) ** 2).sum() / 80)
    assert refused(UploadLimits(trace=true * 0.98), parts) == "trace"
    assert refused(UploadLimits(trace=true * 1.02), parts) is None
    for name, array in (("rows", np.zeros(3)), ("exponents", np.array(7)), ("residual", None)):
        arrays = {**parts["scatter"].arrays, name: array}
        odd = Tensors({key: value for key, value in arrays.items() if value is not None})
        assert refused(UploadLimits(trace=1e-9), {**parts, "scatter": odd}) is None  # the fold's
