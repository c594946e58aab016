import pytest
from cryptography import x509

from coordinator.members.office import Office, Reach, is_by_invitation
from protofleet.errors import TrustError, UsageError
from protofleet.trust import certificates, joining, keys, tokens
from protofleet.trust.joining import Declined

REACH = Reach("mqtts://broker:8883", "mqtts://broker:8884")


class Clock:
    now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def office(tmp_path, clock):
    office = Office(tmp_path, "orchard", clock)
    yield office
    office.close()


def invited(office, name="camera-07", several=0, seconds=3600.0):
    return tokens.of_text(office.invite(name, several, seconds, REACH))


def question(office, token, *, key=None, name=None, request=None):
    name = name or token.name
    request = request or certificates.request(key or keys.new(), name)
    return joining.ask(token.key, office.topics.ask(token.id), name, request)


def answered(office, token, asked, *, office_of=None):
    data = (office_of or office).answer(token.id, asked)
    return joining.read_answer(data, token.authority, office.topics.answer(token.id), asked)


def test_who_was_invited_gets_a_certificate_for_its_key_and_name(office):
    token, key = invited(office), keys.new()
    admission = answered(office, token, question(office, token, key=key))
    now = office._now
    name = certificates.check(admission.certificate, office.authority.certificate, "client", now)
    assert name == admission.name == "camera-07"
    assert keys.raw(certificates.key_of(admission.certificate)) == keys.raw(key.public_key())
    assert office.keys_of_members() == {"camera-07": keys.raw(key.public_key())}
    assert is_by_invitation(office.folder.parent)


def test_the_same_device_is_answered_again_and_another_is_not(office):
    token, key = invited(office), keys.new()
    asked = question(office, token, key=key)
    assert answered(office, token, asked).name == answered(office, token, asked).name
    with pytest.raises(Declined, match="used already"):
        answered(office, token, question(office, token))


def test_an_invitation_ends_and_is_for_one_name(office, clock):
    token = invited(office)
    with pytest.raises(Declined, match="for camera-07, not for camera-08"):
        answered(office, token, question(office, token, name="camera-08"))
    clock.now += 3601
    with pytest.raises(Declined, match="expired"):
        answered(office, token, question(office, token))


def test_nobody_is_let_in_by_another_fleet_s_token_or_one_that_was_made_up(office, tmp_path, clock):
    other = Office(tmp_path / "other", "orchard", clock)
    token = invited(other)
    with pytest.raises(TrustError, match="nobody was invited"):
        office.answer(token.id, question(office, token))
    ours = invited(office)
    forged = joining.ask(token.key, office.topics.ask(ours.id), "camera-07", b"")
    with pytest.raises(TrustError, match="does not hold"):
        office.answer(ours.id, forged)
    with pytest.raises(Declined, match="request"):
        answered(office, ours, question(office, ours, request=b"none"))
    # What another fleet answers is nobody's answer to the device.
    asked = question(other, token)
    with pytest.raises(TrustError, match="another authority"):
        joining.read_answer(
            other.answer(token.id, asked), ours.authority, other.topics.answer(token.id), asked
        )
    other.close()


def test_a_class_of_devices_comes_by_one_token(office):
    token = invited(office, "camera", several=2)
    names = [answered(office, token, question(office, token)).name for _ in range(2)]
    assert names == ["camera-1", "camera-2"]
    with pytest.raises(Declined, match="used already"):
        answered(office, token, question(office, token))


def test_who_is_revoked_is_no_member_and_its_name_is_free(office):
    token, key = invited(office), keys.new()
    certificate = answered(office, token, question(office, token, key=key)).certificate
    with pytest.raises(UsageError, match="is a member"):
        invited(office)
    office.revoke("camera-07")
    assert office.keys_of_members() == {}
    listed = x509.load_pem_x509_crl((office.folder / "broker/revoked.pem").read_bytes())
    assert listed.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None
    assert "user camera-07\ntopic deny #" in (office.folder / "broker/acl").read_text()
    with pytest.raises(Declined, match="was revoked"):
        answered(office, token, question(office, token, key=key))
    with pytest.raises(UsageError, match="is no member"):
        office.revoke("camera-07")
    again = invited(office)
    answered(office, again, question(office, again))
    assert set(office.keys_of_members()) == {"camera-07"}
    acl = office.write_broker_files(()).acl
    assert "topic deny #" not in acl.read_text()  # the name is another's now
    assert "camera-07" not in acl.read_text()


def test_a_member_is_renewed_under_its_own_key_alone(office, clock):
    token, key = invited(office), keys.new()
    answered(office, token, question(office, token, key=key))
    topic = office.topics.certificate("camera-07")

    def renewed(asked):
        data = office.renew("camera-07", asked)
        return joining.read_answer(data, token.authority, topic, asked)

    clock.now += 86_400.0
    assert renewed(certificates.request(key, "camera-07")).name == "camera-07"
    for other, name in ((keys.new(), "camera-07"), (key, "coordinator")):
        with pytest.raises(Declined, match="another name, or another key"):
            renewed(certificates.request(other, name))
    office.revoke("camera-07")
    with pytest.raises(Declined, match="no member"):
        renewed(certificates.request(key, "camera-07"))
    assert len(office.registry.serials(office._wall())) == 2


def test_a_key_is_announced_before_it_signs(office, tmp_path, clock):
    first = keys.raw(office.key.public_key())
    with pytest.raises(UsageError, match="keys rotate"):
        office.retire()
    assert office.rotate().keys[0] == first == keys.raw(office.key.public_key())
    with pytest.raises(UsageError, match="announced already"):
        office.rotate()
    service = Office(tmp_path, "orchard", clock)
    assert not service.reread()
    ring = office.retire()
    assert ring.version == 3
    assert first not in ring.keys
    assert service.reread()
    assert keys.raw(service.key.public_key()) == ring.keys[0]
    service.close()


def test_an_open_invitation_is_a_login_at_the_door_and_no_other_is(office, clock):
    one, two = invited(office), invited(office, "camera-08")
    path = office.folder / "broker/door.passwords"
    assert [line.partition(":")[0] for line in path.read_text().splitlines()] == [one.id, two.id]
    clock.now += 7200
    three = invited(office, "camera-09")
    assert [line.partition(":")[0] for line in path.read_text().splitlines()] == [three.id]
    for name in ("../x", "coordinator"):
        with pytest.raises(UsageError):
            invited(office, name)
    hosts = certificates.hosts(certificates.of_pem(office.folder / "broker/broker.pem"))
    assert {"broker", "localhost", "127.0.0.1"} <= hosts


def test_a_question_that_is_asked_again_and_again_makes_no_more_certificates(office, clock):
    """By its member, or by somebody who heard it."""
    token, key = invited(office), keys.new()
    asked = question(office, token, key=key)
    serials = {answered(office, token, asked).certificate.serial_number for _ in range(3)}
    renewal, topic = certificates.request(key, "camera-07"), office.topics.certificate("camera-07")
    for _ in range(3):
        answer = office.renew("camera-07", renewal)
        admission = joining.read_answer(answer, token.authority, topic, renewal)
        serials.add(admission.certificate.serial_number)
    assert len(serials) == 1
    clock.now += 86_400.0
    answer = office.renew("camera-07", renewal)
    admission = joining.read_answer(answer, token.authority, topic, renewal)
    assert admission.certificate.serial_number not in serials
    office.revoke("camera-07")
    assert len(office.registry.serials(clock.now)) == 2
