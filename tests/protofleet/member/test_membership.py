import pytest

from edge_agent.config import load
from protofleet.errors import SettingError
from protofleet.member import membership
from protofleet.member.membership import FleetMember
from protofleet.settings.broker import BrokerSection


@pytest.fixture
def member(tmp_path):
    member = FleetMember("orchard", "camera-07", "mqtts://broker:8883", tmp_path / "identity")
    membership.write(member)
    return member


def test_what_was_joined_stands_in_the_place_of_defaults(member, tmp_path):
    assert membership.of_folder(tmp_path) == member
    config = load(None, {}, {"agent": {"data_dir": str(tmp_path)}})
    assert (config.id, config.fleet.name, config.broker.url) == (
        "camera-07",
        "orchard",
        "mqtts://broker:8883",
    )
    assert config.broker.key == str(member.key)
    plain = {"agent": {"data_dir": str(tmp_path)}, "broker": {"url": "mqtt://elsewhere"}}
    assert load(None, {}, plain).broker.cert == ""


@pytest.mark.parametrize(("section", "name"), [("agent", "id"), ("fleet", "name")])
def test_a_device_is_not_two(member, tmp_path, section, name):
    flags = {"agent": {"data_dir": str(tmp_path)}}
    flags.setdefault(section, {})[name] = "another"
    with pytest.raises(SettingError, match="joined as camera-07 of orchard"):
        load(None, {}, flags)


def test_nothing_there_is_nothing_and_damage_is_one_line(tmp_path):
    assert membership.of_folder(tmp_path) is None
    (tmp_path / "identity").mkdir()
    (tmp_path / "identity/member.json").write_text("{")
    with pytest.raises(SettingError, match="damaged"):
        membership.of_folder(tmp_path)


def test_a_command_beside_the_daemon_speaks_as_the_member_that_is_named(member, tmp_path):
    address = membership.reached(BrokerSection("mqtt://b"), str(tmp_path), {})
    assert membership.of_address(address) == member
    assert membership.of_address(membership.reached(BrokerSection("mqtt://b"), "", {})) is None
    with pytest.raises(SettingError, match="no fleet was joined there"):
        membership.reached(BrokerSection("mqtt://b"), str(tmp_path / "other"), {})
