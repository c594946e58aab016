"""Features outlive the process that made them, and a torn record costs one of them."""

import numpy as np

from edge_agent.contributing.features import FeatureCache


def key(n):
    return f"{n:064x}"


def filled(path, count):
    cache = FeatureCache(path, 3)
    for n in range(count):
        cache.add(key(n), np.full(3, n, np.float32))
    return cache


def test_they_are_there_again_in_the_next_life(tmp_path):
    filled(tmp_path / "new" / "f.bin", 4)
    cache = FeatureCache(tmp_path / "new" / "f.bin", 3)
    assert len(cache) == 4
    assert key(2) in cache
    assert cache.of([key(3), key(1)]).tolist() == [[3, 3, 3], [1, 1, 1]]


def test_a_torn_record_is_cut_off_and_added_anew(tmp_path):
    path = tmp_path / "f.bin"
    filled(path, 3)
    path.write_bytes(path.read_bytes()[:-5])
    cache = FeatureCache(path, 3)
    assert key(2) not in cache
    cache.add(key(2), np.ones(3, np.float32))
    assert FeatureCache(path, 3).of([key(1), key(2)]).tolist() == [[1, 1, 1], [1, 1, 1]]


def test_what_nobody_uses_goes_once_it_is_most_of_the_file(tmp_path):
    path = tmp_path / "f.bin"
    cache = filled(path, 9)
    cache.tidy({key(n) for n in range(5)})
    assert len(FeatureCache(path, 3)) == 9
    cache.tidy({key(8), key(0)})
    again = FeatureCache(path, 3)
    assert len(again) == len(cache) == 2
    assert again.of([key(8)]).tolist() == [[8, 8, 8]]
