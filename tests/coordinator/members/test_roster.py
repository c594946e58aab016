import pytest

from coordinator.members.office import Office, Reach
from coordinator.members.roster import MemberKeys
from protofleet.trust import certificates, joining, keys, tokens


@pytest.fixture
def office(tmp_path):
    office = Office(tmp_path, "orchard", lambda: 1_800_000_000.0)
    yield office
    office.close()


def test_a_key_counts_from_joining_to_revocation(office):
    roster = MemberKeys(office, everyone=True)
    assert roster.keys("camera-07") == {}
    token = tokens.of_text(office.invite("camera-07", 0, 60.0, Reach("mqtt://b", "mqtt://b")))
    key = keys.new()
    office.answer(
        token.id,
        joining.ask(
            token.key,
            office.topics.ask(token.id),
            "camera-07",
            certificates.request(key, "camera-07"),
        ),
    )
    roster.refresh()
    assert set(roster.keys("camera-07")) == {keys.name(keys.raw(key.public_key()))}
    office.revoke("camera-07")
    roster.refresh()
    assert roster.keys("camera-07") == {}
    assert roster.keys("") == office.ring.public()
    assert roster.required("camera-07")
    assert not MemberKeys(office, everyone=False).required("camera-08")
