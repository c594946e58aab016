"""A token is made once, for its owner's eyes, and sessions of it end."""

import stat

import pytest

from protofleet.errors import FleetError
from protofleet.pages.passkey import FILE, SECONDS, Passkey, passkey_of


def test_it_is_made_once_and_for_its_owner_alone(tmp_path):
    first, fresh = passkey_of(tmp_path)
    again, fresh_again = passkey_of(tmp_path)
    assert (fresh, fresh_again) == (True, False)
    assert first == again
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert first.token not in repr(first)


def test_one_that_others_could_read_is_closed_to_them(tmp_path):
    passkey_of(tmp_path)
    (tmp_path / FILE).chmod(0o644)
    passkey_of(tmp_path)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_a_file_that_holds_none_is_no_token(tmp_path):
    (tmp_path / FILE).write_text("hm\n")
    with pytest.raises(FleetError, match="holds no token"):
        passkey_of(tmp_path)


def test_a_session_ends_and_cannot_be_made_longer():
    key = Passkey("t" * 43)
    session = key.session(1000.0)
    assert key.holds(session, 1000.0 + SECONDS - 1)
    assert not key.holds(session, 1000.0 + SECONDS + 1)
    later = f"9{session}"
    assert not any(key.holds(forged, 0.0) for forged in (later, "", ".", "1.", "x.y", "٣.x"))
    assert not Passkey("u" * 43).holds(session, 1000.0)


def test_the_word_for_steering_is_of_one_session():
    key = Passkey("t" * 43)
    assert key.csrf("a") != key.csrf("b") != key.session(1.0)
