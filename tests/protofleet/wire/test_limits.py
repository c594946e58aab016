"""Each limit holds on the way in and on the way out, and a larger one lets the same bytes pass."""

from dataclasses import replace

import pytest

from protofleet import wire
from protofleet.errors import WireError
from protofleet.values.prototypes import Prototypes
from tests.protofleet.wire.test_messages import FULL

BODY = {"p": Prototypes([0, 9, 9], [[1.0, 2.0, 3.0]] * 3)}


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"message": 100}, "at most 100 are allowed"),
        ({"text": 8}, "text of .* bytes, at most 8 are allowed"),
        ({"items": 9}, "more than 9 items|items claimed"),
        ({"nesting": 3}, "nested deeper than 3"),
        ({"classes": 9}, "class 9, ids are below 9"),
        ({"per_class": 1}, "class 9 has more than 1 rows"),
        ({"dim": 2}, "rows of 3 values, at most 2 are allowed"),
    ],
)
def test_a_limit_binds_sender_and_receiver(limits, words):
    narrow = replace(wire.DEFAULT, **limits)
    data = wire.encode(FULL, BODY)
    assert wire.decode(data).body == BODY
    with pytest.raises(WireError, match=words):
        wire.decode(data, narrow)
    with pytest.raises(WireError, match=words):
        wire.encode(FULL, BODY, limits=narrow)


@pytest.mark.parametrize("limits", [{"message": 100}, {"text": 8}, {"items": 20}, {"nesting": 1}])
def test_an_envelope_is_held_to_them_without_its_body(limits):
    with pytest.raises(WireError):
        wire.unseal(wire.encode(FULL, BODY), replace(wire.DEFAULT, **limits))


def test_control_messages_have_a_bound_of_their_own():
    report = wire.Envelope("report", "f")
    narrow = wire.Limits(control=200)
    assert wire.decode(wire.encode(report, {"x": "y" * 100}), narrow).body == {"x": "y" * 100}
    with pytest.raises(WireError, match="at most 200 are allowed for control messages"):
        wire.decode(wire.encode(report, {"x": "y" * 200}), narrow)
    assert len(wire.encode(FULL, BODY, limits=narrow)) > 200  # parts are no control message
