"""Keys that a member vouches for, and everything that is none."""

from datetime import UTC, datetime, timedelta

import pytest

from protofleet.errors import TrustError
from protofleet.trust import keys, vouching
from protofleet.trust.certificates import Authority

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    authority = Authority.of_folder(tmp_path_factory.mktemp("trust"), "orchard", NOW)
    key = keys.new()
    return authority, key, authority.client("camera-07", key.public_key(), NOW)


def checked(voucher, made, name="camera-07", content=b"keys", now=NOW):
    vouching.check(voucher, name, content, made[0].certificate, lambda: now)


def test_a_members_word_holds(made):
    checked(vouching.vouched(made[1], made[2], b"keys"), made)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"name": "camera-08"}, "under the certificate of camera-07"),
        ({"content": b"other keys"}, "does not hold"),
        ({"now": NOW + timedelta(days=200)}, "not in force"),
    ],
)
def test_of_another_name_keys_or_time(made, how, words):
    with pytest.raises(TrustError, match=words):
        checked(vouching.vouched(made[1], made[2], b"keys"), made, **how)


def test_a_device_that_was_made_up_has_no_certificate(made, tmp_path):
    other = Authority.of_folder(tmp_path, "orchard", NOW)
    key = keys.new()
    forged = other.client("camera-07", key.public_key(), NOW)
    with pytest.raises(TrustError, match="another authority"):
        checked(vouching.vouched(key, forged, b"keys"), made)
    # The right certificate, and another's signature.
    with pytest.raises(TrustError, match="does not hold"):
        checked(vouching.vouched(key, made[2], b"keys"), made)


@pytest.mark.parametrize("cut", [0, 1, 2, 40, 100, -1])
def test_bytes_that_are_no_voucher(made, cut):
    voucher = vouching.vouched(made[1], made[2], b"keys")
    with pytest.raises(TrustError):
        checked(voucher[:cut], made)
    with pytest.raises(TrustError):
        checked(b"\0\0" + voucher[2:], made)
