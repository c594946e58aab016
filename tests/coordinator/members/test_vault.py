"""A list of bundles from the keys that are kept offline to the device that goes by it."""

import time
from hashlib import sha256

import pytest
from tuf.api.metadata import Metadata

from coordinator.members.vault import Vault
from protofleet.errors import TrustError, UsageError
from protofleet.trust import listing
from protofleet.trust.listing import BundleList

DAY = 86_400.0


class Clock:
    def __init__(self):
        self.ahead = 0.0

    def __call__(self):
        return time.time() + self.ahead


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def vault(tmp_path, clock):
    vault = Vault(tmp_path / "trust", clock)
    vault.init(tmp_path / "offline")
    return vault


@pytest.fixture
def device(tmp_path):
    return BundleList(tmp_path / "device")


def bundle(tmp_path, content=b"a bundle"):
    path = tmp_path / f"{content.decode()}.pfb"
    path.write_bytes(content)
    return path, sha256(content).hexdigest(), len(content)


def test_a_bundle_that_is_listed_is_fetched_and_no_other(vault, device, tmp_path):
    path, digest, size = bundle(tmp_path)
    device.check(digest, size)  # where there is no list, there is none to be in
    vault.sign(tmp_path / "offline", [path])
    device.take(vault.publication())
    device.check(digest, size)
    assert len(vault.publication()) < 5000
    with pytest.raises(TrustError, match="does not have it"):
        device.check("00" * 32, size)
    with pytest.raises(TrustError, match="another of that name"):
        device.check(digest, size + 1)
    device.take(vault.publication())  # the next hour's


def test_who_joined_where_there_is_a_list_waits_for_it(vault, device, tmp_path, clock):
    path, digest, size = bundle(tmp_path)
    device.pin(vault.root)
    with pytest.raises(TrustError, match="has not come yet"):
        device.check(digest, size)
    other = Vault(tmp_path / "other", clock)
    assert other.root == b""
    other.init(tmp_path / "other-offline")
    with pytest.raises(TrustError, match="listing: "):
        device.take(other.publication())
    vault.sign(tmp_path / "offline", [path])
    device.take(vault.publication())
    device.check(digest, size)


def test_an_old_list_is_refused(vault, device, tmp_path):
    path, digest, size = bundle(tmp_path)
    vault.sign(tmp_path / "offline", [path])
    old = vault.publication()
    new_path, new_digest, new_size = bundle(tmp_path, b"a newer one")
    vault.sign(tmp_path / "offline", [new_path])
    device.take(vault.publication())
    with pytest.raises(TrustError, match="BadVersionNumberError"):
        device.take(old)
    # Nor if the coordinator itself says today that it is the newest.
    newer = (vault.folder / "targets.json").read_bytes()
    (vault.folder / "targets.json").write_bytes(listing.unpack(old)["targets.json"])
    with pytest.raises(TrustError, match="BadVersionNumberError"):
        device.take(vault.publication())
    (vault.folder / "targets.json").write_bytes(newer)
    device.take(vault.publication())
    device.check(new_digest, new_size)
    with pytest.raises(TrustError, match="does not have it"):
        device.check(digest, size)


def test_a_list_that_nobody_says_is_the_newest_ends(vault, device, tmp_path, clock):
    path, digest, size = bundle(tmp_path)
    vault.sign(tmp_path / "offline", [path])
    clock.ahead = -DAY + 2.0  # made almost a day ago
    device.take(vault.publication())
    device.check(digest, size)
    time.sleep(2.1)  # python-tuf goes by the machine's own clock
    with pytest.raises(TrustError, match="ExpiredMetadataError"):
        device.check(digest, size)
    clock.ahead = 0.0
    device.take(vault.publication())
    device.check(digest, size)


def test_a_list_under_other_keys_is_refused(vault, device, tmp_path, clock):
    path, digest, size = bundle(tmp_path)
    vault.sign(tmp_path / "offline", [path])
    device.take(vault.publication())
    other = Vault(tmp_path / "other", clock)
    other.init(tmp_path / "other-offline")
    bad_path, bad, bad_size = bundle(tmp_path, b"another")
    other.sign(tmp_path / "other-offline", [bad_path])
    files = listing.unpack(vault.publication())
    theirs = listing.unpack(other.publication())
    with pytest.raises(TrustError, match="UnsignedMetadataError"):
        device.take(listing.pack(theirs))
    device.take(listing.pack(files | {"targets.json": theirs["targets.json"]}))  # has a better one
    device.check(digest, size)
    with pytest.raises(TrustError, match="does not have it"):
        device.check(bad, bad_size)
    # Whoever has the coordinator has the key that says what is newest, and no list of its own.
    metadata = Metadata.from_bytes(files["targets.json"])
    metadata.signed.version += 1
    vault._write("targets.json", metadata, _online(vault))
    with pytest.raises(TrustError, match="UnsignedMetadataError"):
        device.take(vault.publication())


def _online(vault):
    from coordinator.members.vault import _signer

    return _signer(vault.folder / "online.key")


def test_what_is_wrong_is_one_line(vault, device, tmp_path, clock):
    for payload in (b"", b"\xa0", b"\xa1\x61a\x01", b"x" * 50):
        with pytest.raises(TrustError):
            device.take(payload)
    with pytest.raises(UsageError, match="has a list already"):
        vault.init(tmp_path / "again")
    with pytest.raises(UsageError, match=r"targets\.key"):
        vault.sign(tmp_path, [])
    with pytest.raises(UsageError, match="is not empty"):
        Vault(tmp_path / "new", clock).init(tmp_path / "offline")
    with pytest.raises(TrustError, match="keys init"):
        Vault(tmp_path / "new", clock).publication()
    assert {p.name for p in (tmp_path / "offline").iterdir()} == {"root.key", "targets.key"}
    assert all(p.stat().st_mode & 0o077 == 0 for p in vault.folder.iterdir())
