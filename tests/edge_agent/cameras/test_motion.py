"""What counts as movement: things, and neither noise nor light."""

import numpy as np

from edge_agent.cameras.motion import ACROSS, MotionGate, cells_of

RNG = np.random.default_rng(5)
WALL = np.clip(RNG.normal(120, 40, (24, 32, 3)), 0, 255).repeat(10, 0).repeat(10, 1)


def seen(brightness=0.0, thing=False, noise=5.0):
    """A wall by a noisy camera, and perhaps a thing before it."""
    image = WALL + brightness + RNG.normal(0, noise, WALL.shape)
    if thing:
        image[50:90, 100:140] = 20
    return cells_of(np.clip(image, 0, 255).astype(np.uint8))


def gate():
    one = MotionGate(0.01)
    assert one.moved(seen())
    one.looked_at(seen())
    return one


def test_noise_is_no_motion_and_a_thing_is():
    still = gate()
    assert not any(still.moved(seen()) for _ in range(50))
    assert still.moved(seen(thing=True))
    assert still.moved(seen(thing=True))  # until somebody looked
    still.looked_at(seen(thing=True))
    assert not still.moved(seen(thing=True))
    assert still.moved(seen())


def test_a_lamp_is_no_motion():
    assert not gate().moved(seen(brightness=35))


def test_light_that_wanders_over_a_wall_never_adds_up_and_a_shadow_that_comes_at_once_does():
    still, wall = gate(), seen()
    shade = np.zeros_like(wall)
    shade[:, : shade.shape[1] // 3] = 60
    assert not any(still.moved(wall - shade * share) for share in np.linspace(0, 1, 600))
    assert gate().moved(wall - shade)


def test_at_a_share_of_nothing_everything_moves():
    always = MotionGate(0)
    always.looked_at(seen())
    assert always.moved(seen())


def test_another_size_of_picture_has_moved():
    still = gate()
    assert still.moved(np.zeros((3, 4), np.float32))


def test_cells_are_few_whatever_the_picture():
    assert cells_of(np.zeros((1080, 1920, 3), np.uint8)).shape[1] == ACROSS
    assert cells_of(np.zeros((5, 7, 3), np.uint8)).shape == (5, 7)
