"""Votes on what sums look like: one an agent, the most win, more than half of the devices settle
it.
"""

import numpy as np
import pytest

from coordinator.uploads.shape_vote import ShapeVote, signature
from protofleet.toolbox import fusions
from protofleet.values.prototypes import Tensors
from protofleet.values.sums import Bag


def like(**shapes):
    return signature(
        fusions.fold_tensors(
            "weights", Tensors({name: np.zeros(shape) for name, shape in shapes.items()}), 1
        )
    )


SMALL, LARGE = like(w=3, b=()), like(w=(3, 2), b=())


def votes(**cast):
    return ShapeVote().with_votes(list(cast.items()))


def test_the_most_win_and_of_two_with_as_many_neither_does():
    two = votes(a=LARGE, b=SMALL)
    assert two.outvoted(LARGE) is not None
    assert two.outvoted(SMALL) is not None
    three = two.with_votes([("c", SMALL)])
    assert three.outvoted(LARGE) == "weights.w: 3 × 2 where other devices have 3"
    assert three.outvoted(SMALL) is None


def test_an_agent_has_one_vote_however_often_it_sends():
    several = votes(a=LARGE, b=SMALL).with_votes([("a", LARGE), ("a", like(w=7))])
    assert several.outvoted(like(w=7)) is not None
    assert several == votes(b=SMALL, a=like(w=7))


def test_more_than_half_of_the_devices_settle_it_and_then_nothing_is_counted_any_more():
    most = votes(a=LARGE, b=SMALL, c=SMALL)
    assert most.settle(4).settled == {}
    settled = most.settle(3)
    assert settled == ShapeVote(SMALL)
    assert settled.with_votes([("d", LARGE), ("e", LARGE)]) == settled
    assert settled.outvoted(LARGE) == settled.unlike(LARGE) is not None


@pytest.mark.parametrize(
    ("have", "words"),
    [
        (like(w=3), "weights.b: missing, other devices have it"),
        (like(w=3, b=(), c=1), "weights.c: other devices have none"),
        (like(w=3, b=2), "weights.b: 2 where other devices have one number"),
        (SMALL, None),
        ({}, None),
        ({"another": ()}, None),
    ],
)
def test_what_differs_is_said(have, words):
    assert ShapeVote(SMALL).unlike(have) == words


def test_bags_have_no_signature_and_what_is_kept_comes_back():
    assert signature({"kept": Bag.of("a", 1, {})}) == {}
    open_and_settled = ShapeVote(LARGE).with_votes([("a", {"more": SMALL["weights"]})])
    assert ShapeVote.read(open_and_settled.text()) == open_and_settled
    assert ShapeVote.read(None) == ShapeVote()
