"""Photographs are looked at once for one extractor, and again when they or it changed."""

import os

import numpy as np
import pytest
from PIL import Image

from edge_agent.inference.classifier import Classifier
from export.writer import Wanted, export, write
from protofleet.errors import DataError
from simulators.photos.features import embedder
from tests.bundles import device


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "digits"
    write(export(device(), Wanted(by="prototype")), path)
    return path


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(1)
    paths = [tmp_path / f"{i}.png" for i in range(70)]  # more than a block
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (8, 8), np.uint8)).save(path)
    return paths


def test_features_are_the_classifiers_own_and_are_kept(bundle, files, tmp_path):
    steps = []
    embed = embedder(bundle, tmp_path / "kept", lambda at, of: steps.append((at, of)))
    first = embed(files)
    images = np.stack([np.asarray(Image.open(file))[..., None] for file in files])
    assert np.allclose(first, Classifier(bundle).embed(images), atol=1e-6)
    assert steps == [(0, 70), (64, 70)]
    assert np.array_equal(embed(files), first)
    assert len(steps) == 2


def test_a_changed_photograph_is_looked_at_again(bundle, files, tmp_path):
    embed = embedder(bundle, tmp_path / "kept", lambda at, of: None)
    first = embed(files)
    Image.fromarray(np.full((8, 8), 255, np.uint8)).save(files[3])
    os.utime(files[3], (1, 1))
    again = embed(files)
    assert not np.allclose(again[3], first[3])
    assert np.array_equal(np.delete(again, 3, 0), np.delete(first, 3, 0))


def test_a_photograph_that_went_away_is_one_line(bundle, files, tmp_path):
    files[5].unlink()
    with pytest.raises(DataError, match=r"5\.png"):
        embedder(bundle, tmp_path / "kept", lambda at, of: None)(files)
