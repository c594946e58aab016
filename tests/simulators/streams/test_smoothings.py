"""Rules side by side on scenes of the test's."""

import numpy as np
from PIL import Image

from simulators.streams import smoothings
from simulators.streams.slides import painted
from simulators.streams.smoothings import WAYS, compared, frame_of
from tests.networks import extractor_bundle


def test_one_frame_that_is_sure_and_wrong_rules_out_the_truth_without_a_floor():
    frames = np.array([[[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.0, 1.0]]])
    answers = {way: int(answer(frames)[0]) for way, answer in WAYS.items()}
    assert answers["mean of ln p, no floor"] == 1
    assert answers["mean of ln p, floor 0.02"] == 0
    assert answers["votes"] == answers["mean of p"] == 0


def test_a_frame_is_a_part_of_its_scene_and_follows_from_the_seed():
    picture = painted(4).pictures[0]
    one, two = (frame_of(picture, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(one, two)
    assert one.shape[0] <= picture.shape[0]


def test_each_rule_has_a_share_a_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(smoothings, "SCENES", 2)
    rng, slides = np.random.default_rng(2), painted(4)
    for name, picture in zip(slides.labels, slides.pictures, strict=True):
        folder = tmp_path / "photos" / "one" / name
        folder.mkdir(parents=True)
        for number in range(12):
            noisy = picture[::4, ::4] + rng.normal(0, 6, picture[::4, ::4].shape)
            image = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
            image.save(folder / f"{number}.png", compress_level=0)
    extractor_bundle(tmp_path / "x.pfb")
    shares = compared(tmp_path / "x.pfb", tmp_path / "photos", 8, 2)
    assert set(shares) == set(WAYS)
    assert all(len(row) == 2 and 0 <= min(row) <= max(row) <= 1 for row in shares.values())
