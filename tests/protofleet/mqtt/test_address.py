"""Broker URLs: what they mean, and one clear line for those that mean nothing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.errors import UsageError
from protofleet.mqtt.address import Address


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mqtt://localhost", Address("mqtt", "localhost", 1883)),
        ("mqtts://b.example:9999", Address("mqtts", "b.example", 9999)),
        ("mqtts://b.example/", Address("mqtts", "b.example", 8883)),
        ("ws://h:9001", Address("ws", "h", 9001, "/mqtt")),
        ("wss://h/some/path", Address("wss", "h", 443, "/some/path")),
        ("mqtt://[::1]:7", Address("mqtt", "::1", 7)),
        ("mqtt://a%40b:p%2Fw@h", Address("mqtt", "h", 1883, "", "a@b", "p/w")),
    ],
)
def test_a_url_says_where_and_how(url, expected):
    assert Address.parse(url) == expected


def test_printing_an_address_shows_no_secret():
    address = Address.parse("mqtts://camera:hunter2@h")
    assert str(address) == "mqtts://h:8883"
    assert "hunter2" not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h",
        "h:1883",
        "http://h",
        "mqtt://",
        "mqtt://h:0",
        "mqtt://h:99999",
        "mqtt://h:x",
        "mqtt://h/path",
        "mqtt:h",
        "ws://h/p?q=1",
        "mqtt://[::1",
        "mqtt://:1883",
    ],
)
def test_a_bad_url_is_one_clear_line(url):
    with pytest.raises(UsageError, match="broker URL") as error:
        Address.parse(url)
    assert "\n" not in str(error.value)


@given(st.text(max_size=40), st.sampled_from(["", "mqtt://", "mqtt://u:s3cr3t@", "wss://"]))
def test_any_text_is_an_address_or_a_usage_error_without_the_password(text, before):
    words = ""
    try:
        address = Address.parse(before + text)
        assert 0 < address.port < 65536
        assert address.host
    except UsageError as error:
        words = str(error)
    assert "s3cr3t" not in words


def test_credentials_come_from_the_file_then_the_url_then_the_environment(tmp_path):
    two, one = tmp_path / "two", tmp_path / "one"
    two.write_text("camera\npass word:x\n")
    one.write_text("camera:pass:word\n")
    environ = {"PROTOFLEET_MQTT_USERNAME": "env", "PROTOFLEET_MQTT_PASSWORD": "secret"}

    def who(url, file=None, environ=environ):
        address = Address.parse(url, credentials_file=file, environ=environ)
        return address.username, address.password

    assert who("mqtt://u:p@h", two) == ("camera", "pass word:x")
    assert who("mqtt://h", one) == ("camera", "pass:word")
    assert who("mqtt://u:p@h") == ("u", "p")
    assert who("mqtt://u@h") == ("u", "secret")
    assert who("mqtt://h") == ("env", "secret")
    assert who("mqtt://h", environ={}) == (None, None)


def test_files_that_cannot_be_used_are_named(tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for file in (empty, tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match=str(file)):
            Address.parse("mqtt://h", credentials_file=file)
    with pytest.raises(UsageError, match="CA file"):
        Address.parse("mqtts://h", ca=Path("/none"))
    with pytest.raises(UsageError, match="together"):
        Address.parse("mqtts://h", cert=empty)
    with pytest.raises(UsageError, match="not encrypted"):
        Address.parse("mqtt://h", ca=empty)
    with pytest.raises(UsageError, match="PROTOFLEET_MQTT_USERNAME"):
        Address.parse("mqtt://h", environ={"PROTOFLEET_MQTT_PASSWORD": "x"})


@pytest.mark.parametrize(
    ("url", "open_to_others"),
    [
        ("mqtt://me:secret@broker.example", True),
        ("ws://me:secret@10.0.0.7", True),
        ("mqtts://me:secret@broker.example", False),
        ("wss://me:secret@broker.example", False),
        ("mqtt://me:secret@127.0.0.1", False),
        ("mqtt://me:secret@localhost", False),
        ("mqtt://me:secret@[::1]", False),
        ("mqtt://broker.example", False),
    ],
)
def test_a_password_that_others_on_the_way_can_read_is_warned_of(url, open_to_others):
    words = Address.parse(url).in_the_open
    assert bool(words) is open_to_others
    assert "secret" not in words


@pytest.mark.parametrize(
    ("url", "shared"),
    [
        ("mqtt://127.0.0.1", False),
        ("mqtt://localhost:1884", False),
        ("mqtt://coordinator:secret@127.0.0.1", True),
        ("mqtt://10.0.0.7", True),
    ],
)
def test_a_broker_of_this_machine_that_asks_nobody_is_ours_alone(url, shared):
    assert Address.parse(url).shared is shared
