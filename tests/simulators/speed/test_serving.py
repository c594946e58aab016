"""A coordinator that is measured is there when the block begins and gone when it is left."""

import pytest

from coordinator.service.control import NotRunning, ask
from protofleet.errors import FleetError
from protofleet.mqtt.broker.run import running_broker
from simulators.speed.serving import serving


def test_it_has_reached_its_broker_when_the_block_begins(tmp_path):
    with running_broker(tmp_path / "broker", prefer="embedded") as broker:
        url = str(broker.address)
        with serving(tmp_path, url, "bench", 3, 8, {"min_agents": 2}) as process:
            status = ask(tmp_path / "data", "status")
            assert status["connected"]
            assert process.poll() is None
        assert process.poll() is not None
        with pytest.raises(NotRunning):
            ask(tmp_path / "data", "status")


def test_one_that_ends_is_an_error_that_names_its_log(tmp_path):
    with (
        pytest.raises(FleetError, match=r"the coordinator ended; see .*coordinator\.log"),
        serving(tmp_path, "mqtt://127.0.0.1:1", "bench", 3, 8, {"nonsense": 1}),
    ):
        pass
