"""Epochs count lives: what is far ahead of them is not believed, what was believed is topped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.wire import epochs
from protofleet.wire.epochs import FIRST, JUMP


@pytest.mark.parametrize(
    ("epoch", "known", "credible"),
    [
        (1, -1, True),
        (FIRST, -1, True),
        (FIRST + 1, -1, False),
        (0, 7, True),
        (7 + JUMP, 7, True),
        (8 + JUMP, 7, False),
        (2**63 - 1, 7, False),
    ],
)
def test_what_is_far_ahead_is_not_believed(epoch, known, credible):
    assert epochs.is_credible(epoch, known) == credible


@given(st.integers(0, 2**40), st.integers(0, 2**63 - 1))
def test_a_new_life_tops_what_could_be_believed_and_is_believed_itself(own, heard):
    epoch = epochs.following(own, heard)
    assert own < epoch
    assert epochs.is_credible(epoch, own)
    assert epoch >= heard or not epochs.is_credible(heard, own)


def test_a_number_from_before_the_bounds_is_begun_anew_where_every_device_believes_it():
    epoch = epochs.following(2**63 + 1, 0)
    assert epochs.is_credible(epoch, 1)
    assert epochs.is_credible(epoch, -1)
    assert epoch > 10_000
