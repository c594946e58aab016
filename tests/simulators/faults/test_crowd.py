"""Daemons on threads: in good order while the block lasts, and named where one fails."""

import pytest

from edge_agent.store import Store, lock
from protofleet.errors import FleetError
from simulators.faults.crowd import DeviceSite, crowd

NOWHERE = "mqtt://127.0.0.1:1"


def test_daemons_live_without_a_broker_and_leave_their_directories_free(tmp_path):
    sites = [DeviceSite(NOWHERE, "trial", name, tmp_path / name) for name in ("a", "b")]
    with crowd(sites) as members:
        assert all(member.daemon is not None for member in members)
        assert all(member.thread.is_alive() for member in members)
    for site in sites:
        lock(site.folder).close()
        store = Store(site.folder, read_only=True)
        assert store.noted("boot")
        store.close()


def test_a_device_that_cannot_start_is_named_when_the_others_are_stopped(tmp_path):
    taken = lock(tmp_path / "b")
    sites = [DeviceSite(NOWHERE, "trial", name, tmp_path / name) for name in ("a", "b")]
    members = []
    words = r"b failed: (?s:.*)another edge-agent works here"
    with pytest.raises(FleetError, match=words), crowd(sites) as started:
        members += started
    taken.close()
    assert not any(member.thread.is_alive() for member in members)
