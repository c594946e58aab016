"""Samples as a run's networks see them: kept as they are, and laid out with classes apart."""

import numpy as np
import pytest

from simulators.run.maps import FILE, EmbeddedSamples
from simulators.run.rounds import LabOptions, run_in
from simulators.run.setup import prepare


@pytest.fixture(scope="module")
def run_folder(small_lab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps") / "run"
    setup = prepare(small_lab("fedproto", rounds=1))
    return run_in(setup, LabOptions(), lambda row: None, folder), folder


def test_what_is_kept_is_what_was_embedded(run_folder):
    outcome, folder = run_folder
    samples = EmbeddedSamples.read(folder)
    points = np.concatenate([z for z, _ in outcome.embedded.values()])
    np.testing.assert_array_equal(samples.points, points)
    assert samples.labels.tolist() == [y for _, ys in outcome.embedded.values() for y in ys]
    np.testing.assert_array_equal(samples.stars, outcome.state.shared["prototypes"].vectors)
    assert samples.classes == tuple(outcome.setup.data.classes)


def test_what_is_not_there_or_no_such_file_is_nothing(tmp_path):
    assert EmbeddedSamples.read(tmp_path) is None
    for content in (b"", b"PK\x03\x04 no archive"):
        (tmp_path / FILE).write_bytes(content)
        assert EmbeddedSamples.read(tmp_path) is None


def test_in_the_plane_classes_that_lie_apart_stay_apart():
    draws = np.random.default_rng(0)
    centres = 20 * np.eye(3, 8)
    labels = np.repeat(np.arange(3), 30)
    points = centres[labels] + draws.normal(size=(90, 8))
    samples = EmbeddedSamples(points, labels, centres, np.arange(3), ("a", "b", "c"))
    plane, stars = samples.flat()
    assert plane.shape == (90, 2)
    nearest = np.linalg.norm(plane[:, None] - stars[None], axis=2).argmin(1)
    assert (nearest == labels).all()
    np.testing.assert_array_equal(samples.flat()[0], plane)
    few = EmbeddedSamples(points[:3], labels[:3], centres[:1], np.array([0]), ("a", "b", "c"))
    assert np.isfinite(few.flat()[0]).all()
