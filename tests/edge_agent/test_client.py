"""A bundle in somebody's program: files and arrays in, label, probability and unknown out."""

import numpy as np
import pytest
from PIL import Image

from edge_agent.client import Client
from export.writer import Wanted, export, write
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from tests.bundles import device, digits
from tests.linking import eventually
from tests.serving import coordinator, frozen


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "fleets.pfb"
    write(export(device(embedding=24), Wanted(by="prototype", freeze=True)), path)
    return path


def test_a_file_and_an_array_are_answered_alike(bundle, tmp_path):
    image = digits().x[3]
    Image.fromarray(image[..., 0]).save(tmp_path / "photo.png")
    with Client(str(bundle)) as client:
        seen, same = client.predict_all([tmp_path / "photo.png", image])
        assert seen == same
        alone = client.predict(str(tmp_path / "photo.png"))
        assert [label for label, _ in alone.top] == [label for label, _ in seen.top]
        assert {label for label, _ in seen.top} == set(client.classes)
        assert seen.label in (seen.top[0][0], None)
        large = np.repeat(np.repeat(image, 3, 0), 3, 1)
        assert client.predict(large).top[0][0] == seen.top[0][0]
        assert client.predict_all([]) == []


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_it_follows_a_fleet_while_the_block_lasts(bundle, tmp_path):
    own = tmp_path / "own.pfb"
    write(export(device(embedding=12), Wanted(by="prototype")), own)
    with (
        running_broker(tmp_path / "broker", prefer="mosquitto") as broker,
        coordinator(str(broker.address), tmp_path),
    ):
        frozen(tmp_path, bundle)
        with Client(own, follow=str(broker.address)) as client:
            eventually(lambda: client.classifier.bundle.manifest.embedding == 24)
            assert client.predict(digits().x[0]).top
