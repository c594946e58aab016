"""One section says how a broker is reached, for devices and coordinator alike."""

from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.config import ServingBroker
from edge_agent.config import Config
from protofleet.errors import UsageError
from protofleet.settings.broker import FILES, BrokerSection


@pytest.fixture
def files(tmp_path):
    for name in FILES:
        (tmp_path / name).write_text("name:secret\n")
    return {name: str(tmp_path / name) for name in FILES}


@pytest.mark.parametrize("section", [Config().broker, ServingBroker()])
def test_what_is_not_set_is_not_asked_for(section):
    address = section.address({})
    assert str(address) == "mqtt://127.0.0.1:1883"
    assert (address.username, address.ca, address.cert, address.key) == (None,) * 4


def test_every_file_ends_up_in_the_address(files):
    section = BrokerSection("mqtts://broker", **files)
    address = section.address({"PROTOFLEET_MQTT_USERNAME": "another"})
    assert (address.username, address.password) == ("name", "secret")  # a file before the rest
    assert [address.ca, address.cert, address.key] == [
        Path(files[name]) for name in ("ca", "cert", "key")
    ]


def test_a_certificate_without_encryption_is_refused(files):
    with pytest.raises(UsageError, match="mqtt:// is not encrypted"):
        BrokerSection(ca=files["ca"]).address({})


def test_a_coordinators_section_is_a_devices_and_what_it_may_send():
    coordinators = replace(ServingBroker(), url="ws://broker", packet=4096)
    assert coordinators.address({}) == BrokerSection("ws://broker").address({})
