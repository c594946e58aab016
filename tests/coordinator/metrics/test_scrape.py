"""A scrape asks a running service at its socket, and says so where there is none."""

from queue import SimpleQueue

from coordinator.metrics.scrape import not_ready, scraped
from coordinator.service import status
from coordinator.service.control import Control
from tests.coordinator.made import core, joined


def test_a_service_is_asked_and_one_that_is_gone_is_told_as_gone(tmp_path):
    made = core(tmp_path)
    joined(made)
    connected = [True]

    def look(request):
        if request.command == "agents":
            return status.agents(made, 1.0)
        return status.status(made, made.messages, 1.0, 1.0, connected[0], {})

    assert [family.name for family in scraped(tmp_path)] == ["protofleet_coordinator_answers"]
    assert "no coordinator answers" in not_ready(tmp_path)
    control = Control(tmp_path, SimpleQueue(), lambda: None, look)
    try:
        told = {family.name: family.points for family in scraped(tmp_path)}
        assert told["protofleet_round"][0].value == 1
        assert len(told["protofleet_device_online"]) == 3
        assert not_ready(tmp_path) == ""
        connected[0] = False
        assert not_ready(tmp_path) == "no connection to the broker"
    finally:
        control.close()
