"""Honest voices are all heard, to the bit; a minority that lies is not, whatever the order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.statistics import voices
from protofleet.statistics.contribution import MEANS, SCATTER, Grid, contribution, fold
from protofleet.values.sums import Bag, Sum, digest, merge_all, subtract

GRID, COUNT, WIDTH = Grid(), 4096, 6
AGENTS = [f"camera-{i}" for i in range(7)]
LIES = {
    "negated": lambda x, y: (-x, y),
    "shuffled": lambda x, y: (x, (y + 1) % 4),
    "far": lambda x, y: (x + 9, y),
}


def own(agent, lie=None, classes=4):
    """A device's samples of some of four classes; a liar has all."""
    rng = np.random.default_rng([*agent.encode()])
    y = np.repeat(rng.permutation(4)[:classes], 20)
    x = rng.normal(size=(len(y), WIDTH)) + 5.0 * np.eye(4, WIDTH)[y]
    return fold(contribution(*(LIES[lie](x, y) if lie else (x, y)), GRID), GRID)


def total(liars=(), lie="negated", classes=3, agents=AGENTS):
    every = [own(a, lie) if a in liars else own(a, classes=classes) for a in agents]
    return merge_all(
        voices.placed(partial, agent, COUNT) for partial, agent in zip(every, agents, strict=True)
    )


def named(bad):
    return {agent for agent in AGENTS if voices.bucket_of(agent, COUNT) in bad}


@given(st.permutations(AGENTS))
def test_where_nobody_lies_all_are_heard_to_the_bit_in_any_order(order):
    whole = total(agents=order)
    assert not voices.doubted(whole, COUNT)
    plain = merge_all(own(agent, classes=3) for agent in AGENTS)
    assert digest(voices.heard(whole, COUNT, ())) == digest(plain)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("liars", [AGENTS[:1], AGENTS[:3]])
def test_a_minority_of_liars_is_not_heard_and_everybody_else_is(lie, liars):
    whole = total(liars, lie)
    bad = voices.doubted(whole, COUNT)
    assert named(bad) == set(liars)
    rest = merge_all(own(agent, classes=3) for agent in AGENTS if agent not in liars)
    assert digest(voices.heard(whole, COUNT, bad)) == digest(rest)
    gone = voices.placed(own(liars[0], lie), liars[0], COUNT)
    assert named(voices.doubted(subtract(whole, gone), COUNT)) == set(liars[1:])


def test_of_two_that_differ_both_are_heard_and_so_are_all_where_no_majority_agrees():
    assert not voices.doubted(total(AGENTS[:1], agents=AGENTS[:2]), COUNT)
    worlds = [
        voices.placed(fold(contribution(x + 30 * i, y, GRID), GRID), agent, COUNT)
        for i, agent in enumerate(AGENTS[:4])
        for x, y in [(np.eye(4, WIDTH).repeat(9, 0) * 5, np.arange(4).repeat(9))]
    ]
    assert not voices.doubted(merge_all(worlds), COUNT)


def test_without_classes_to_tell_apart_or_without_buckets_nobody_is_doubted():
    alone = [
        voices.placed(fold(contribution(np.ones((9, 2)) * i, np.zeros(9), GRID), GRID), a, COUNT)
        for i, a in enumerate(AGENTS)
    ]
    assert not voices.doubted(merge_all(alone), COUNT)
    plain = {**own("a"), "devices": Bag.of("a", 1, {})}
    assert voices.placed(plain, "a", 1) is plain is voices.heard(plain, 1, ())
    assert not voices.doubted(plain, 1)
    assert not voices.doubted({}, COUNT)
    assert voices.placed(plain, "a", COUNT)["devices"] is plain["devices"]


def test_a_bucket_that_is_empty_again_is_no_voice():
    whole = total(AGENTS[:2])
    for agent in AGENTS[:2]:
        whole = subtract(whole, voices.placed(own(agent, "negated"), agent, COUNT))
    rest = merge_all(own(agent, classes=3) for agent in AGENTS[2:])
    assert not voices.doubted(whole, COUNT)
    assert digest(voices.heard(whole, COUNT, ())) == digest(rest)
    assert isinstance(whole[MEANS], Sum)
    assert whole[SCATTER].weights.all()


def speaking(agent, classes, lies=()):
    """Twenty samples of each of these classes, of some under the next one's name."""
    rng = np.random.default_rng([*agent.encode()])
    y = np.repeat(classes, 20)
    looks = np.where(np.isin(y, lies), (y + 1) % 8, y)
    x = rng.normal(size=(len(y), 8)) + 5.0 * np.eye(8)[looks]
    return voices.placed(fold(contribution(x, y, GRID), GRID), agent, COUNT)


def doubted_of(*said):
    return named(voices.doubted(merge_all(said), COUNT))


def test_who_lies_of_few_classes_that_many_have_is_not_heard():
    others = [speaking(agent, [0, 1, 2 + i]) for i, agent in enumerate(AGENTS[1:6])]
    assert doubted_of(speaking(AGENTS[0], range(8), lies=[1]), *others) == {AGENTS[0]}
    several = [speaking(agent, range(8), lies=[0, 2, 4, 6]) for agent in AGENTS[:3]]
    others = [speaking(agent, [i, i + 1, i + 2]) for i, agent in enumerate(AGENTS[3:])]
    assert doubted_of(*several, *others) == set(AGENTS[:3])


def test_who_lies_of_a_class_that_three_have_is_not_heard_however_many_there_are():
    others = [speaking(agent, [0, 1 + i % 2]) for i, agent in enumerate(AGENTS[1:])]
    assert doubted_of(speaking(AGENTS[0], [2, 5], lies=[2]), *others) == {AGENTS[0]}


@pytest.mark.parametrize("framing", [AGENTS[:1], AGENTS[:2]])
def test_two_that_lie_of_the_one_class_of_another_cannot_have_it_doubted(framing):
    liars = [speaking(agent, range(8), lies=[7]) for agent in framing]
    others = [speaking(agent, range(4)) for agent in AGENTS[2:6]]
    assert AGENTS[6] not in doubted_of(speaking(AGENTS[6], [6, 7]), *liars, *others)
