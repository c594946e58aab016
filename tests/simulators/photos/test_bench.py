"""The bench of photographs runs through, and its document says what was asked for."""

import numpy as np
import pytest

from simulators.photos.bench import PhotosOptions, bench_photos, best_fixed, document
from tests.simulators.photos.made_up import photographs


@pytest.fixture(scope="module")
def bench():
    said = []
    options = PhotosOptions(splits=2, shots=(1, 0), classes=2)
    return bench_photos(photographs(), options, said.append), options, said


def test_every_figure_is_there_and_a_share(bench):
    found, options, _ = bench
    keys = document(found, options)
    assert set(keys["accuracy"]) == {"1", "all"}
    for table in keys["accuracy"].values():
        assert {"nearest", "cosine", "discriminant", "fleet"} <= table.keys()
        assert all(0 <= table[name] <= 1 for name in ("nearest", "cosine", "discriminant", "fleet"))
    assert set(keys["new_class"]) == {"fleet", "nearest", "fleet_one_device"}
    assert {"new", "others_before", "others_after"} <= keys["new_class"]["fleet"].keys()
    assert {"plain", "aligned"} == keys["unseen"].keys()
    assert {"auroc", "false_alarms", "rejected"} == keys["unknown"].keys()
    assert 0 <= keys["calibration_error"] < 0.2
    assert {"up", "down"} == keys["bytes"].keys()


def test_on_clear_classes_the_fleet_is_as_good_as_the_best_rule(bench):
    found, _, _ = bench
    for table in found.accuracy.values():
        assert table["fleet"] > best_fixed(table)[1] - 0.05
    assert found.unknown["auroc"] > 0.8
    assert found.suspects["named"] > 0.9


def test_it_says_what_it_does(bench):
    _, _, said = bench
    assert any("split 2" in words for words in said)
    assert any("unseen" in words for words in said)


def test_the_best_rule_is_named():
    table = {"nearest": 0.5, "cosine": 0.7, "discriminant 0.1": 0.6, "fleet": 0.9}
    assert best_fixed(table | {"shrinkage": 1.0, "temperature": 4.0}) == ("cosine", 0.7)
    assert np.isclose(best_fixed(table)[1], 0.7)
