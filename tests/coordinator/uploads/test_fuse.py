"""Fusion ends in what its readers decode, whatever order the uploads come in."""

import itertools

import pytest

from coordinator.uploads.fuse import as_published, fuse_round, fuse_total, start_state
from protofleet import registry, wire
from protofleet.exchange.state import Upload
from protofleet.recipe import Turn
from protofleet.values.sums import merge
from tests.coordinator.made import AGENTS, CONTRACT, parts_of

RECIPE = registry.load("fedproto")
TURN = Turn(CONTRACT, RECIPE.hyper(), 1)


@pytest.fixture
def before():
    return start_state(RECIPE, Turn(CONTRACT, RECIPE.hyper(), 0))


def uploads(before):
    return [Upload(agent, 1, before.base, parts_of(agent, 1)) for agent in AGENTS]


def test_no_order_of_uploads_changes_a_bit(before):
    orders = itertools.permutations(uploads(before))
    assert len({fuse_round(RECIPE, TURN, before, order).sha256 for order in orders}) == 1


def test_totals_of_parts_of_a_fleet_add_up_to_the_fleets(before):
    first, second, third = (RECIPE.fold(TURN, upload, 1) for upload in uploads(before))
    split = merge(third, merge(second, first))
    whole = fuse_round(RECIPE, TURN, before, uploads(before))
    assert fuse_total(RECIPE, TURN, split, before).sha256 == whole.sha256


def test_the_coordinator_goes_on_with_the_numbers_that_devices_decode(before):
    state = fuse_round(RECIPE, TURN, before, uploads(before))
    encoded = wire.encode_parts(state.shared, CONTRACT.wire, RECIPE.precision)
    assert wire.decode_parts(encoded) == state.shared
    assert as_published(state, CONTRACT.wire, RECIPE.precision).sha256 == state.sha256


def test_a_weight_that_all_share_changes_nothing(before):
    one, sixteen = (fuse_round(RECIPE, TURN, before, uploads(before), w) for w in (1, 16))
    assert one.sha256 == sixteen.sha256
