import stat

import pytest

from protofleet.errors import TrustError
from protofleet.trust import keys


def test_a_key_is_kept_for_its_owner_alone_and_stays_the_same(tmp_path):
    path = tmp_path / "trust" / "device.key"
    key = keys.of_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)  # as a careless copy leaves it
    again = keys.of_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keys.raw(again.public_key()) == keys.raw(key.public_key())
    assert len(keys.name(keys.raw(key.public_key()))) == 8


def test_what_is_no_key_is_one_line(tmp_path):
    path = tmp_path / "device.key"
    with pytest.raises(TrustError, match="is not there"):
        keys.read(path)
    path.write_text("-----BEGIN nothing")
    with pytest.raises(TrustError, match="no private key"):
        keys.read(path)
    with pytest.raises(TrustError, match="31 bytes"):
        keys.public(bytes(31))
