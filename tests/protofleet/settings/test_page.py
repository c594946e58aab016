"""A page's settings are read like all others."""

import tomllib

import pytest

from protofleet.errors import SettingError
from protofleet.settings import layers
from protofleet.settings.fields import from_plain
from protofleet.settings.page import ListenAddress, PageSection


def test_what_is_written_is_read():
    section = PageSection("127.0.0.1:8321", ("fleet.example",), ("10.0.0.1",), "x-user")
    document = tomllib.loads("\n".join(layers.as_toml(section)))
    assert from_plain(PageSection, document) == section
    assert from_plain(PageSection, {"names": "a,b"}).names == ("a", "b")


@pytest.mark.parametrize(
    ("text", "address", "local"),
    [
        ("127.0.0.1:8321", ("127.0.0.1", 8321), True),
        ("[::1]:1", ("::1", 1), True),
        (":80", ("127.0.0.1", 80), True),
        ("80", ("127.0.0.1", 80), True),
        ("localhost:80", ("localhost", 80), True),
        ("0.0.0.0:80", ("0.0.0.0", 80), False),
        ("fleet.example:80", ("fleet.example", 80), False),
    ],
)
def test_where_it_listens(text, address, local):
    parsed = ListenAddress.parse(text)
    assert ((parsed.host, parsed.port), parsed.is_local) == (address, local)


@pytest.mark.parametrize("text", ["", "x", "127.0.0.1:", "127.0.0.1:99999", "a:٣"])
def test_what_is_no_place_to_listen(text):
    with pytest.raises(SettingError, match="no place to listen"):
        ListenAddress.parse(text)
