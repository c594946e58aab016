"""The whole bench on coloured noise: a live ledger ends in the laboratory's hash."""

import pytest
from PIL import Image

from protofleet.mqtt.broker import mosquitto
from simulators.photos.livebench import LiveOptions, bench_ledger
from tests.networks import extractor_bundle, pictures

COLOURS = {"red": 1, "blue": 2, "grey": 3, "green": 4}


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_a_live_fleet_ends_where_the_laboratory_does_and_in_any_order(tmp_path):
    extractor_bundle(tmp_path / "x.pfb")
    for domain in ("a", "b", "c"):
        for label, seed in COLOURS.items():
            place = tmp_path / "data" / domain / label
            place.mkdir(parents=True)
            for n, image in enumerate(pictures(seed, 60)["abc".index(domain) :: 3][:18]):
                Image.fromarray(image).save(place / f"{n}.png")
    options = LiveOptions(tmp_path / "data", tmp_path / "x.pfb", "green", 0.2, 0.5, starts=1)
    answer = bench_ledger(options, tmp_path / "run", lambda words: None)
    assert answer["live"]["state"] == answer["laboratory"]["state"]
    assert {start["state"] for start in answer["starts"]} == {answer["live"]["state"]}
    assert set(answer["live"]["accuracy"].values()) == {answer["laboratory"]["accuracy"]}
    assert {one["photos"] for one in answer["devices"].values()} == {36}
    assert not any(one["torch"] for one in answer["devices"].values())
    assert answer["new_class"]["new"] > 0.5
    assert answer["forgotten"]["proof"]
    assert any("c-swapped" in sentence for sentence in answer["suspects"])
