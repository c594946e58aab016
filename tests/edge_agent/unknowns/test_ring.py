"""A bounded number of unknown things stays, each once, with its picture."""

import numpy as np
from PIL import Image

from edge_agent.unknowns.ring import UnknownRing

X = np.random.default_rng(1).integers(0, 255, (20, 16, 16, 3)).astype(np.uint8)


def filled(folder, count, most=8):
    ring = UnknownRing(folder / "x.pfb", "extractor:a", 3, most)
    for n in range(count):
        ring.add(np.full(3, n, np.float32), X[n])
    return ring


def test_the_oldest_go_and_their_pictures(tmp_path):
    ring = filled(tmp_path, 11)
    assert ring.features(ring.keys)[:, 0].tolist() == list(range(3, 11))
    assert len(list(ring.folder.glob("*.jpg"))) == 8
    with Image.open(ring.picture(ring.keys[0])) as picture:
        assert picture.size == (16, 16)


def test_the_same_picture_is_there_once_and_in_the_next_life(tmp_path):
    ring = filled(tmp_path, 3)
    ring.add(np.zeros(3, np.float32), X[1])
    assert len(ring.keys) == 3
    assert UnknownRing(tmp_path / "x.pfb", "extractor:a", 3).keys == ring.keys
    assert UnknownRing(tmp_path / "x.pfb", "extractor:b", 3).keys == []


def test_a_number_means_what_was_listed_even_if_others_come_and_go(tmp_path):
    ring = filled(tmp_path, 5)
    a, b, _, d, e = ring.keys
    ring.list_clusters([[a, b], [d, e]])
    ring.forget([d])
    again = filled(tmp_path, 8)
    assert (again.cluster(1), again.cluster(2)) == ([a, b], [e] if d not in again.keys else [d, e])
    assert again.cluster(0) == again.cluster(3) == []
