"""What a site that joined is held to as a member: its certificate, and the fleet's list."""

import io
import time
from datetime import UTC, datetime, timedelta

import pytest

from coordinator.members.office import Office
from coordinator.relay.member import SiteMember
from coordinator.relay.uplink import Uplink
from protofleet.errors import TrustError
from protofleet.mqtt.topics import Topics
from protofleet.util.logs import Log
from simulators.faults.invited import admitted
from tests.siting import HandLink


def test_a_certificate_is_renewed_in_time_and_a_list_is_one_or_none(tmp_path):
    lines = io.StringIO()
    office, log = Office(tmp_path / "top", "orchard", time.time), Log(lines)
    member = admitted(office, "north", tmp_path / "identity", "mqtt://head")
    topics, link = Topics("orchard"), HandLink()
    uplink = Uplink(link, topics, "north", tmp_path, log, time.monotonic)
    standing = SiteMember.of(member, uplink, log)
    standing.renewal.look(connected=True)
    assert link.taken() == []  # there is time
    standing.renewal._next = 0.0
    standing.renewal._wall = lambda: datetime.now(UTC) + timedelta(days=80)
    standing.renewal.look(connected=True)
    ((topic, question),) = link.taken()
    assert topic == topics.renewal("north")
    standing.renewal.take_in(office.renew("north", question))
    assert "the certificate was renewed" in lines.getvalue()
    with pytest.raises(TrustError):
        standing.listing.take(b"nothing")
    office.close()
