import pytest

from coordinator.members.registry import InvitationRecord, MemberRecord, Registry, RegistryError
from protofleet.errors import TrustError

KEY = bytes(32)


@pytest.fixture
def registry(tmp_path):
    registry = Registry(tmp_path / "trust/members.db")
    yield registry
    registry.close()


def test_what_was_revoked_is_on_the_list_for_as_long_as_it_would_be_in_force(registry):
    with registry.commit():
        registry.put_member(MemberRecord("camera-07", KEY, "i", 1.0, None))
        registry.put_certificate(2**159, "camera-07", 90.0)
        registry.put_certificate(7, "camera-07", 180.0)
        registry.revoke("camera-07", 50.0)
    assert registry.serials(60.0) == [7, 2**159]
    assert registry.serials(100.0) == [7]
    assert (registry.member("camera-07").revoked, registry.member("camera-07").ends) == (50, 180)


def test_a_new_invitation_takes_the_place_of_one_that_nobody_used(registry):
    with registry.commit():
        for id in ("one", "two"):
            registry.put_invitation(InvitationRecord(id, KEY, "camera-07", 0, 9.0))
    assert [i.id for i in registry.invitations()] == ["two"]
    with registry.commit():
        registry.put_member(MemberRecord("camera-07", KEY, "two", 1.0, None))
        registry.put_invitation(InvitationRecord("three", KEY, "camera-07", 0, 9.0))
    assert registry.invitation("two") is not None  # who came by it may ask again


def test_a_transaction_is_whole_and_another_process_is_noticed(registry, tmp_path):

    def broken():
        with registry.commit():
            registry.put_member(MemberRecord("camera-07", KEY, "i", 1.0, None))
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert registry.members() == []
    before = registry.version
    other = Registry(tmp_path / "trust/members.db")
    with other.commit():
        other.put_member(MemberRecord("camera-07", KEY, "i", 1.0, None))
    other.close()
    assert registry.version != before
    assert (tmp_path / "trust/members.db").stat().st_mode & 0o077 == 0


def test_a_file_that_is_none_is_one_line(tmp_path):
    (tmp_path / "members.db").write_bytes(b"not a database at all" * 99)
    with pytest.raises(TrustError, match="not a database"):
        Registry(tmp_path / "members.db")


def test_what_cannot_be_written_is_one_line_and_the_next_can(registry, tmp_path, monkeypatch):
    other = Registry(tmp_path / "trust/members.db")
    registry._db.execute("PRAGMA busy_timeout=1")

    def joins():
        with registry.commit():
            registry.put_member(MemberRecord("camera-07", KEY, "i", 1.0, None))

    with other.commit(), pytest.raises(RegistryError, match="cannot be written"):
        joins()
    joins()
    assert [m.name for m in registry.members()] == ["camera-07"]
    other.close()
