"""What is asked first: the middle of heaps while nothing is known, then what is doubtful."""

import numpy as np

from edge_agent.recent import asking

RNG = np.random.default_rng(5)


def heaps(*sizes, width=30):
    centres = np.eye(width)[: len(sizes)] * 8
    rows = [centres[i] + RNG.normal(0, 0.6, (n, width)) for i, n in enumerate(sizes)]
    return np.concatenate(rows), np.repeat(np.arange(len(sizes)), sizes)


def test_while_nothing_is_known_every_heap_is_asked_about_before_any_twice():
    x, y = heaps(30, 20, 10, 5)
    unit = asking.directions(x)
    order = asking.order(unit, unit[:0], asking.doubts(np.zeros((len(x), 0))))
    assert sorted(order.tolist()) == list(range(len(x)))
    assert set(y[order[:4]]) == {0, 1, 2, 3}
    # what was named here is not asked for again
    after = asking.order(unit, unit[order[:2]], np.ones(len(x)))
    assert set(y[after[:2]]) == {0, 1, 2, 3} - set(y[order[:2]])


def test_what_the_fleet_is_sure_of_comes_last():
    x, y = heaps(20, 20, 20)
    scores = np.where((y == 0)[:, None], [90.0, 1.0, 1.0], [3.0, 2.0, 1.0])
    doubt = asking.doubts(scores)
    order = asking.order(asking.directions(x), np.zeros((0, 30)), doubt, most=40)
    assert 0 not in y[order[:4]]
    assert (y[order[:20]] == 0).sum() <= 3
    unknown = asking.doubts(scores, y == 0)
    assert (unknown[y == 0] == 1).all()


def test_there_may_be_nothing_or_one_and_classes_may_be_one():
    assert asking.order(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0)).tolist() == []
    assert asking.order(np.zeros((1, 3)), np.zeros((0, 3)), np.ones(1)).tolist() == [0]
    assert asking.doubts(np.ones((2, 1))).tolist() == [1, 1]
