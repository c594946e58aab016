"""How a method classifies without any device: by its state, or by its head where it would need
samples.
"""

from dataclasses import replace

import pytest

from protofleet import registry, scoring
from protofleet.contract import Contract, Input
from protofleet.recipe import ByHead, LikeliestMixture, NearestPrototype, Turn
from protofleet.values.prototypes import Head, Mixtures, Prototypes

CONTRACT = Contract("f", "r", 0, ("a", "b"), Input("vector", (2,)), 2)
POINTS = Prototypes([0, 1], [[1.0, 0.0], [0.0, 1.0]])
MIXTURES = Mixtures([0], [1.0], [[0.0, 0.0]], [[1.0, 1.0]], [1])
ROWS = Head([0], [[1.0, 0.0]], [0.0])


def scorers(scorer):
    recipe = replace(registry.load("fedavg"), scorers=scorer)
    return scoring.scorers_of(recipe, Turn(CONTRACT, recipe.hyper(), 1), {"p": POINTS})


def test_a_scorer_of_the_state_alone_is_taken():
    assert scorers(lambda turn, me, state: {"near": NearestPrototype(state["p"])}) == {
        "near": NearestPrototype(POINTS)
    }


@pytest.mark.parametrize("look", [lambda me: me.features(), lambda me: me.weights("head")])
def test_one_that_asks_for_samples_is_left_with_its_head(look):
    assert scorers(lambda turn, me, state: look(me)) == {"head": ByHead()}


def test_a_device_without_samples_says_so():
    seen = []
    scorers(lambda turn, me, state: seen.append((me.samples, me.classes.size, me.memory)) or {})
    assert seen == [(0, 0, {})]


@pytest.mark.parametrize(
    ("scorer", "points"),
    [
        (NearestPrototype(POINTS), POINTS),
        (LikeliestMixture(MIXTURES), MIXTURES),
        (ByHead(), None),
        (ByHead(rows=ROWS), ROWS),
    ],
)
def test_what_embeddings_are_compared_with(scorer, points):
    assert scoring.points_of(scorer) == points


def test_every_method_can_be_asked():
    for name in registry.names():
        recipe = registry.load(name)
        turn = Turn(CONTRACT, recipe.hyper(), 1)
        state = recipe.start(turn).shared
        assert scoring.scorers_of(recipe, turn, state), name


def test_a_run_is_known_by_its_prototypes_where_it_has_some():
    assert scoring.primary({"head": 0.9, "prototype": 0.1}) == "prototype"
    assert scoring.primary({"head": 0.9, "mixture": 0.1}) == "head"
