"""A decoder gives images of vectors that it never saw."""

import numpy as np

from simulators.attacks import decoder
from simulators.attacks.similarity import error


def test_images_of_strangers_come_back_better_than_the_mean_image(people, trained):
    private = people.private
    usual = people.public.images.mean(0)
    ours = error(trained.images(private.features[:100]), private.images[:100]).mean()
    assert ours < 0.3 * error(usual[None], private.images[:100]).mean()


def test_the_loss_that_is_shown_is_of_images_it_was_not_trained_on(people, trained):
    steps = [step for step, _ in trained.curve]
    assert steps[-1] == 200
    assert steps == sorted(steps)
    held_back = slice(len(people.public.images) - len(people.public.images) // 10, None)
    restored = trained.images(people.public.features[held_back])
    off = error(restored, people.public.images[held_back]).mean()
    # The curve is of values as they come, images are cut to 0 to 1.
    assert abs(trained.curve[-1][1] - off) < 1e-5


def test_sides_that_four_does_not_divide_come_back_whole():
    rng = np.random.default_rng(0)
    vectors, images = rng.random((40, 5)), rng.random((40, 10, 7, 3)).astype(np.float32)
    one, two = (decoder.trained(vectors, images, 2, seed) for seed in (0, 0))
    assert one.images(vectors[:3]).shape == (3, 10, 7, 3)
    assert np.array_equal(one.images(vectors), two.images(vectors))
