"""The pictures of a run show its own numbers: looked at where they are handed over."""

import numpy as np
import pytest

from simulators.run import pictures
from simulators.run.rounds import LabOptions, run_in
from simulators.run.setup import prepare


@pytest.fixture
def drawn(monkeypatch):
    """What each kind of picture was asked to draw."""
    calls = {}
    for name in ("curves", "partition_picture", "embedding_map"):
        monkeypatch.setattr(
            pictures.plots, name, lambda *given, name=name: calls.setdefault(name, given)
        )
    return calls


def test_a_run_s_pictures_hold_its_rounds_samples_and_prototypes(small_lab, tmp_path, drawn):
    setup = prepare(small_lab("fedproto", rounds=2))
    outcome = run_in(setup, LabOptions(), lambda row: None, tmp_path)
    series, *_ = drawn["curves"]
    assert series["prototype"] == [(row.round, row.accuracy["prototype"]) for row in outcome.rows]
    counts, classes, agents, _ = drawn["partition_picture"]
    assert counts.shape == (len(agents), len(classes)) == (5, 10)
    points, labels, stars, star_classes, *_ = drawn["embedding_map"]
    assert len(points) == len(labels) > 0
    prototypes = outcome.state.shared["prototypes"]
    np.testing.assert_array_equal(stars, prototypes.vectors)
    assert star_classes == prototypes.classes.tolist()


def test_without_prototypes_the_classes_own_means_are_the_stars(small_lab, tmp_path, drawn):
    run_in(prepare(small_lab("local", rounds=1)), LabOptions(), lambda row: None, tmp_path)
    points, labels, stars, star_classes, *_ = drawn["embedding_map"]
    first = star_classes[0]
    np.testing.assert_allclose(stars[0], points[labels == first].mean(0), atol=1e-5)
