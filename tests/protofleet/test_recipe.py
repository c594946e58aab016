"""What every move is given: chance by name, and moves that do nothing where a method has none."""

from dataclasses import replace

import numpy as np
import pytest

from protofleet import recipe, registry
from protofleet.contract import Contract, Input
from protofleet.recipe import Traits, Turn, Widths
from protofleet.values.prototypes import Prototypes, Tensors

CONTRACT = Contract("f", "r", 7, ("a", "b"), Input("vector", (2,)), 2)
TURN = Turn(CONTRACT, None, 3, "camera")


def first(generator: np.random.Generator) -> float:
    return float(generator.random())


def test_a_draw_depends_on_who_when_and_what_for_and_on_nothing_else():
    assert first(TURN.rng("train")) == first(
        Turn(CONTRACT, "other settings", 3, "camera").rng("train")
    )
    others = [
        TURN.rng("adapt"),
        replace(TURN, round=4).rng("train"),
        replace(TURN, agent="scale").rng("train"),
        replace(TURN, contract=replace(CONTRACT, seed=8)).rng("train"),
        replace(TURN, contract=replace(CONTRACT, run="s")).rng("train"),
    ]
    assert len({first(TURN.rng("train")), *map(first, others)}) == 6


def test_what_the_fleet_draws_is_the_same_on_every_device_and_in_every_round():
    other = replace(TURN, round=9, agent="scale")
    assert first(TURN.fleet_rng("start")) == first(other.fleet_rng("start"))
    assert first(TURN.fleet_rng("start")) != first(TURN.fleet_rng("end"))


def test_a_seed_is_one_that_libraries_take():
    assert 0 <= TURN.seed("kmeans") < 2**63


def test_what_a_method_leaves_out_does_nothing():
    state = {"p": Prototypes([0], [[1.0]])}
    assert recipe.always(TURN)
    assert recipe.no_heads(TURN) == {}
    assert recipe.start_empty(TURN).shared == {}
    assert recipe.take_nothing(TURN, None, state) is None
    assert recipe.no_phases(TURN, None, state) == ()


def test_papers_count_real_numbers_and_no_ids():
    up = [{"p": Prototypes([0, 1], np.ones((2, 5)), [9, 9])}, {"t": Tensors({"w": np.ones(3)})}]
    assert recipe.floats_up(TURN, up, recipe.start_empty(TURN)) == 2 * 5 + 3


@pytest.mark.parametrize("name", registry.names())
def test_a_method_starts_alike_wherever_it_is_started(name):
    """The coordinator of the fleet and the laboratory begin from the same bytes."""
    method = registry.load(name)
    turn = Turn(CONTRACT, method.hyper(), 0)
    assert method.start(turn).sha256 == method.start(replace(turn, agent="anyone")).sha256


def test_hidden_layers_belong_to_the_extractor_where_the_classifier_is_one_layer():
    assert Traits().widths(120, (84,)) == Widths(120, (84,))
    assert Traits(linear_head=True).widths(120, (84,)) == Widths(84, (), (120, 84))
    assert Traits(linear_head=True).widths(512, ()) == Widths(512)
