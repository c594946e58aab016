"""A site's upload of a round: exact, and held to what sums are."""

import numpy as np
import pytest

from protofleet import wire
from protofleet.errors import FusionError
from protofleet.exchange import pooled
from protofleet.exchange.published import document_part
from protofleet.values import sums
from protofleet.values.prototypes import Tensors
from protofleet.values.sums import Bag, Sum
from protofleet.wire import Envelope

TOTAL = {
    "prototypes": Sum.of([0, 2], np.array([[1.0, -2.0], [0.5, 0.0]]), [3, 4]),
    "weights/conv": Sum.of([0], np.full((1, 2, 3), -0.125), 5),
}


def through(parts):
    return wire.decode(wire.encode(Envelope("upload", "f"), parts, "float32")).body


def test_sums_come_back_to_the_bit_with_who_is_in_them():
    said = pooled.read(through(pooled.parts_of(["b", "a"], TOTAL)))
    assert said.claim.members == ("a", "b")
    assert sums.digest(said.partial) == sums.digest(TOTAL)
    assert pooled.is_pooled(pooled.parts_of(["a"], {}))
    assert not pooled.is_pooled({"prototypes": Tensors({})})


def test_a_bag_is_not_said():
    with pytest.raises(FusionError, match="sums alone"):
        pooled.parts_of(["a"], {"all": Bag.of("a", 1, {})})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"prototypes": Tensors({"x": np.zeros(1, np.int64)})}, "no part of a site's upload"),
        ({"sum of x": Tensors({"x": np.zeros(1, np.int64)})}, "keys, weights, bytes"),
        ({"pooled": Tensors({"json": np.array([123], np.int64)})}, "not a JSON document"),
        ({"pooled": document_part(pooled.PooledClaim(("a",)))}, ""),
    ],
)
def test_what_is_no_sum_is_refused(more, words):
    parts = pooled.parts_of(["a"], TOTAL) | more
    if not words:
        assert pooled.read(parts).claim.members == ("a",)
        return
    with pytest.raises(FusionError, match=words):
        pooled.read(parts)
