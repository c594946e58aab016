"""A still scene is looked at until its answer holds, and then no more."""

import numpy as np

from edge_agent.cameras.regions import WHOLE, Region
from edge_agent.cameras.scenes import RESTLESS, Scene

NAMES, SHARES = ("a", "b"), np.array([0.9, 0.1])
STILL = np.full((20, 20), 100, np.float32)


def looks(scene, cells, frames, shares=SHARES, *, restless=False):
    """How many of so many frames were looked at; a restless answer is another one each time."""
    count = 0
    for frame in range(frames):
        if scene.opens(cells):
            scene.looked_at(cells)
            of = shares[::-1] if restless and frame % 2 else shares
            scene.smoother.step(NAMES, of, int(of.argmax()), False)
            count += 1
    return count


def changed(rows):
    cells = STILL.copy()
    cells[rows] = 0
    return cells


def test_a_still_scene_costs_as_many_looks_as_an_answer_must_hold():
    scene = Scene(WHOLE, 0.01, 5, 3)
    assert looks(scene, STILL, 100) == 3
    assert looks(scene, changed(slice(2)), 100) == 3  # and so does what comes and stays


def test_what_was_there_before_does_not_speak_against_what_came():
    scene = Scene(WHOLE, 0.01, 50, 3)
    looks(scene, STILL, 100)
    looks(scene, changed(slice(2)), 3, shares=np.array([0.1, 0.9]))
    assert scene.smoother.settled


def test_what_comes_right_behind_an_answer_is_answered_too():
    scene = Scene(WHOLE, 0.01, 5, 3)
    looks(scene, STILL, 3)
    assert scene.smoother.settled
    assert looks(scene, changed(slice(2)), 100, shares=np.array([0.1, 0.9])) == 4
    assert scene.smoother._said == ("b",)


def test_while_something_moves_the_answer_is_made_of_all_of_it():
    scene = Scene(WHOLE, 0.01, 5, 3)
    for row in range(9):
        looks(scene, changed(slice(row, row + 2)), 1)
    assert scene.smoother.frames == 5


def test_a_scene_whose_answer_never_holds_is_left_alone_until_something_moves():
    scene = Scene(WHOLE, 0.01, 2, 2)
    restless = looks(scene, STILL, 100, shares=np.array([0.6, 0.4]), restless=True)
    assert restless <= RESTLESS * 2 + 1
    assert looks(scene, changed(slice(2)), 1) == 1


def test_a_region_is_moved_by_what_is_in_it():
    left = Scene(Region("left", 0, 0, 1, 0.5), 0.01, 5, 3)
    looks(left, STILL, 10)
    assert looks(left, changed(slice(10, 20)), 10) == 0
    assert looks(left, changed(slice(0, 5)), 10) == 3


def test_another_extractor_or_a_camera_that_was_away_looks_again():
    scene = Scene(WHOLE, 0.01, 5, 3)
    looks(scene, STILL, 10)
    scene.look_again()
    assert looks(scene, STILL, 10) == 3
    scene.forget()
    assert looks(scene, STILL, 10) == 3
