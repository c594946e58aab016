"""An answer is said when it has held, and once."""

import numpy as np
import pytest

from edge_agent.cameras.smoothing import Smoother

NAMES = ("a", "b", "c")


def step(smoother, best, sure=0.8, unknown=False):
    shares = np.full(3, (1 - sure) / 2)
    shares[NAMES.index(best)] = sure
    return smoother.step(NAMES, shares, NAMES.index(best), unknown)


def said(smoother, *looks):
    return [None if one is None else one.label for one in (step(smoother, x) for x in looks)]


def test_an_answer_that_holds_is_said_once():
    smoother = Smoother(5, 3)
    assert said(smoother, *"aaaaaa") == [None, None, "a", None, None, None]
    assert smoother.settled


def test_one_frame_changes_nothing_and_another_answer_that_holds_is_said():
    smoother = Smoother(5, 3)
    said(smoother, *"aaaaa")
    assert said(smoother, *"baaa") == [None] * 4
    changes = said(smoother, *"bbbbbbbb")
    assert [one for one in changes if one is not None] == ["b"]


def test_a_single_frame_that_is_sure_rules_nothing_out():
    smoother = Smoother(5, 3)
    for sure in (0.6, 0.6, 0.6, 0.6):
        step(smoother, "a", sure)
    assert step(smoother, "b", 1 - 1e-12) is None
    assert step(smoother, "a", 0.6) is None
    assert smoother._candidate == ("a",)


def test_unknown_is_an_answer_like_any_other_and_names_the_nearest():
    smoother = Smoother(5, 3)
    answers = [step(smoother, "a", unknown=True) for _ in range(3)]
    assert (answers[-1].label, answers[-1].nearest) == (None, "a")
    assert [step(smoother, "a", unknown=True) for _ in range(3)] == [None] * 3


def test_the_probability_is_that_of_one_frame_however_many_there_were():
    smoother = Smoother(50, 20)
    answers = [step(smoother, "a", 0.7) for _ in range(20)]
    assert answers[-1].probability == pytest.approx(0.7)
    assert answers[-1].frames == 20


def test_after_a_restart_the_frames_before_say_nothing_and_what_was_said_stands():
    smoother = Smoother(50, 2)
    said(smoother, *"a" * 50)
    smoother.restart()
    assert not smoother.settled
    assert said(smoother, *"aab") == [None] * 3
    smoother.restart()
    assert said(smoother, *"bb") == [None, "b"]
    smoother.forget()
    assert said(smoother, *"bb") == [None, "b"]


def test_other_classes_are_another_beginning():
    smoother = Smoother(5, 2)
    said(smoother, *"aa")
    shares = np.array([0.1, 0.9])
    assert smoother.step(("x", "a"), shares, 1, False) is None
    assert smoother.step(("x", "b"), shares, 1, False) is None
    assert smoother.step(("x", "b"), shares, 1, False).label == "b"


def test_without_probabilities_frames_vote():
    smoother = Smoother(5, 3)
    outcomes = [smoother.step(NAMES, None, best, False) for best in (0, 1, 0, 0, 0)]
    (held,) = [one for one in outcomes if one is not None]
    assert (held.label, held.probability) == ("a", None)
