import io
from datetime import UTC, datetime, timedelta

import pytest

from coordinator.members.office import Office
from protofleet.errors import TrustError
from protofleet.member.renewal import EVERY, Renewal
from protofleet.mqtt.topics import Topics
from protofleet.trust import certificates, joining, keys
from protofleet.util.logs import Log
from tests.membership import joined

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
TOPICS = Topics("orchard")


class Outbound(list):
    def say(self, topic, payload):
        self.append((topic, payload))
        return True


@pytest.fixture
def office(tmp_path):
    moment = [BEGAN.timestamp()]
    office = Office(tmp_path / "coordinator", "orchard", lambda: moment[0])
    office.moment = moment
    yield office
    office.close()


@pytest.fixture
def member(office, tmp_path):
    return joined(office, "camera-07", tmp_path / "identity")


def renewal(member, now, clock=lambda: 0.0):
    said = Outbound()
    return Renewal(member, said, Log(io.StringIO()), clock, lambda: now), said


def test_a_certificate_is_renewed_when_a_third_of_it_is_left(office, member):
    early, said = renewal(member, BEGAN + timedelta(days=50))
    early.look(connected=True)
    assert said == []
    clock = [0.0]
    late, said = renewal(member, BEGAN + timedelta(days=70), lambda: clock[0])
    late.look(connected=False)
    late.look(connected=True)
    late.look(connected=True)
    ((topic, question),) = said
    clock[0] += EVERY
    late.look(connected=True)
    assert len(said) == 2  # there was no answer
    office.moment[0] += 70 * 86_400
    before = certificates.of_pem(member.certificate)
    late.take_in(office.renew(TOPICS.parse(topic).agent, question))
    after = certificates.of_pem(member.certificate)
    assert after.not_valid_after_utc - before.not_valid_after_utc == timedelta(days=70)


def test_nobody_else_s_answer_is_taken(office, member, tmp_path):
    late, said = renewal(member, BEGAN + timedelta(days=70))
    late.look(connected=True)
    ((_, question),) = said
    before = member.certificate.read_bytes()
    other = Office(tmp_path / "other", "orchard", BEGAN.timestamp)
    certificate = other.authority.client("camera-07", keys.read(member.key).public_key(), BEGAN)
    admission = joining.Admission(
        "camera-07", certificate, other.authority.certificate, other.signed_ring
    )
    topic = TOPICS.certificate("camera-07")
    for authority in (other.authority, office.authority):
        forged = joining.admitted(authority, topic, question, admission)
        with pytest.raises(TrustError):
            late.take_in(forged)
    other.close()
    office.revoke("camera-07")
    with pytest.raises(TrustError, match="no member"):
        late.take_in(office.renew("camera-07", question))
    assert member.certificate.read_bytes() == before
