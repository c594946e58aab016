"""A bundle knows what is shown afterwards."""

import numpy as np
import pytest
from PIL import Image

from edge_agent.data import images
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from protofleet.errors import DataError
from simulators.streams import teaching
from simulators.streams.slides import HEIGHT, WIDTH, painted
from tests.networks import extractor_bundle


def answers(taught):
    classifier = Classifier(taught.bundle)
    cache.settled(classifier, taught.bundle)
    kind = classifier.bundle.manifest.input
    looks = np.stack([images.fitted(one, kind) for one in taught.slides.pictures])
    return classifier.look(looks).best


def test_made_up_pictures_are_known(tmp_path, monkeypatch):
    monkeypatch.setattr(teaching, "EACH", 20)
    extractor_bundle(tmp_path / "x.pfb")
    taught = teaching.of_slides(tmp_path / "x.pfb", painted(4))
    assert answers(taught) == list(taught.slides.labels)


def test_of_photographs_one_is_shown_that_was_not_learned_from(tmp_path, monkeypatch):
    monkeypatch.setattr(teaching, "EACH", 20)
    rng, slides = np.random.default_rng(2), painted(4)
    for name, picture in zip(slides.labels, slides.pictures, strict=True):
        folder = tmp_path / "photos" / "one" / name
        folder.mkdir(parents=True)
        for number in range(25):
            noisy = np.clip(picture + rng.normal(0, 6, picture.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / f"{number}.png", compress_level=0)
    bundle = tmp_path / "x.pfb"
    extractor_bundle(bundle)
    taught = teaching.of_photographs(bundle, tmp_path / "photos")
    assert taught.slides.pictures.shape == (4, HEIGHT, WIDTH, 3)
    assert answers(taught) == list(taught.slides.labels)
    monkeypatch.setattr(teaching, "SURE", 2.0)
    with pytest.raises(DataError, match="known for sure"):
        teaching.of_photographs(bundle, tmp_path / "photos")
