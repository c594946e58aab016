import pytest

from protofleet.errors import TrustError
from protofleet.trust import listing
from protofleet.trust.listing import BundleList


def test_files_travel_as_they_are():
    files = {"timestamp.json": b"{}", listing.ROOT: b"{...}"}
    assert listing.unpack(listing.pack(files)) == files
    for payload in (b"", b"\x80", b"\xa1\x61a\x61b"):
        with pytest.raises(TrustError):
            listing.unpack(payload)


def test_a_root_that_is_none_is_not_pinned(tmp_path):
    device = BundleList(tmp_path)
    with pytest.raises(TrustError, match="listing: "):
        device.take(listing.pack({listing.ROOT: b"{}", "timestamp.json": b"{}"}))
    assert not (tmp_path / "pinned.json").exists()
    device.check("00" * 32, 1)
