"""A person on two devices' pages, all of it by processes."""

import pytest
from PIL import Image

from protofleet.mqtt.broker import mosquitto
from simulators.photos.features import embedder
from simulators.photos.photographs import embedded
from simulators.photos.tapping import bench_tapping
from tests.networks import extractor_bundle, pictures

COLOURS = {"red": 1, "blue": 2, "grey": 3}


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_taps_on_pages_come_to_a_classifier_and_one_taken_back_is_out_of_it(tmp_path):
    extractor_bundle(tmp_path / "x.pfb")
    for domain in ("a", "b"):
        for label, seed in COLOURS.items():
            place = tmp_path / "data" / domain / label
            place.mkdir(parents=True)
            for n, image in enumerate(pictures(seed, 40)["ab".index(domain) :: 2][:9]):
                Image.fromarray(image).save(place / f"{n}.jpg", quality=95)
    seen = embedded(tmp_path / "data", embedder(tmp_path / "x.pfb", None, lambda at, of: None))
    (tmp_path / "run").mkdir()
    answer = bench_tapping(
        tmp_path / "data", tmp_path / "x.pfb", seen, 10, lambda words: None, tmp_path / "run"
    )
    assert [point["taps"] for point in answer["points"]] == [5, 10]
    assert answer["points"][-1]["classes"] == 3
    assert answer["points"][-1]["accuracy"] > 0.9
    assert answer["undone"]["samples"] == [10, 9]
