"""Devices that joined without a broker are members like any other."""

import time

from coordinator.members.office import Office, is_by_invitation
from protofleet.member import membership
from protofleet.member.sealed_link import Voice
from protofleet.trust import keys
from protofleet.trust.sequence import DAEMON
from simulators.faults import invited


def test_an_invited_fleet_knows_its_devices_and_they_its_key(tmp_path):
    homes = {name: tmp_path / "agents" / name for name in ("a", "b")}
    invited.invite(tmp_path / "data", "trial", homes, "mqtt://h:1")
    assert is_by_invitation(tmp_path / "data")
    office = Office(tmp_path / "data", "trial", time.time)
    try:
        member = membership.of_folder(homes["a"])
        assert (member.name, member.fleet, member.broker) == ("a", "trial", "mqtt://h:1")
        own = keys.raw(keys.read(member.key).public_key())
        assert office.keys_of_members()["a"] == own
        voice = Voice(member, DAEMON)
        assert voice.ring.keys == office.ring.keys
        voice.close()
    finally:
        office.close()
