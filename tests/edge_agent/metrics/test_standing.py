"""How a device stands, from what its processes left on disk."""

import os

import pytest

from edge_agent.daemon.status import Status, write
from edge_agent.metrics.standing import FLEET, NeverRun, not_ready, standing
from edge_agent.store import Store
from edge_agent.updates.sight import Sight, Sights


@pytest.fixture
def device(tmp_path):
    Store(tmp_path).close()

    def leaves(**changes):
        document = {"pid": os.getpid(), "connected": True, **changes}
        write(tmp_path, Status("a", "f", "mqtt://x", **document), "now")
        return tmp_path

    return leaves


def test_a_device_that_never_ran_is_told_so(tmp_path):
    with pytest.raises(NeverRun, match="no device has run here yet"):
        standing(tmp_path)
    assert not_ready(tmp_path) == "the daemon does not run"


def test_it_stands_as_its_daemon_and_its_camera_left_it(device):
    folder = device(samples=3, trained=7)
    Sights(folder / FLEET).add(Sight("mug", 0.9, at=4.0))
    document = standing(folder)
    assert document["running"]
    assert document["trained"] == 0  # the store's word, not the document's
    assert document["seen"]["newest"]["label"] == "mug"
    assert document["disk_free_bytes"] > 0
    assert document["certificate_end"] is None
    assert not_ready(folder) == ""


def test_a_daemon_that_was_killed_does_not_run(device):
    folder = device(pid=2**22 + 1)
    assert not standing(folder)["running"]
    assert not_ready(folder) == "the daemon does not run"


def test_one_without_a_broker_is_not_ready_and_says_why(device):
    assert "refused" in not_ready(device(connected=False, trouble="refused"))
