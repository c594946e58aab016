import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from protofleet.errors import TrustError
from protofleet.trust import certificates, keys
from protofleet.trust.certificates import Authority

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("trust")


@pytest.fixture(scope="module")
def authority(folder):
    return Authority.of_folder(folder, "orchard", NOW)


def test_an_authority_stays_the_same(authority, folder):
    again = Authority.of_folder(folder, "orchard", NOW + timedelta(days=1))
    assert again.fingerprint == authority.fingerprint
    assert (folder / "authority.key").stat().st_mode & 0o077 == 0


def test_a_request_shows_that_its_sender_has_the_key():
    key = keys.new()
    name, public = certificates.read_request(certificates.request(key, "camera-07"))
    assert (name, keys.raw(public)) == ("camera-07", keys.raw(key.public_key()))
    forged = bytearray(certificates.request(key, "camera-07"))
    forged[-1] ^= 1
    for der in (bytes(forged), b"", b"\x30\x80" * 40):
        with pytest.raises(TrustError, match="request"):
            certificates.read_request(der)


def test_a_certificate_is_good_for_one_name_one_usage_and_ninety_days(authority):
    client = authority.client("camera-07", keys.new().public_key(), NOW)
    assert certificates.check(client, authority.certificate, "client", NOW) == "camera-07"
    with pytest.raises(TrustError, match="not for a server"):
        certificates.check(client, authority.certificate, "server", NOW)
    server = authority.server(["broker.orchard", "127.0.0.1"], keys.new().public_key(), NOW)
    with pytest.raises(TrustError, match="not for a client"):
        certificates.check(server, authority.certificate, "client", NOW)
    with pytest.raises(TrustError, match="not in force"):
        certificates.check(client, authority.certificate, "client", NOW + timedelta(days=91))
    assert not certificates.is_due(client, NOW + timedelta(days=59))
    assert certificates.is_due(client, NOW + timedelta(days=61))


def test_a_certificate_of_another_authority_is_refused(authority, tmp_path):
    other = Authority.of_folder(tmp_path, "orchard", NOW)  # of the same name
    with pytest.raises(TrustError, match="another authority"):
        certificates.check(
            other.client("camera-07", keys.new().public_key(), NOW),
            authority.certificate,
            "client",
            NOW,
        )
    # One that a device signs is of nobody who may sign.
    device = keys.new()
    leaf = authority.client("camera-07", device.public_key(), NOW)
    below = Authority(device, leaf).client("coordinator", keys.new().public_key(), NOW)
    with pytest.raises(TrustError, match="another authority"):
        certificates.check(below, authority.certificate, "client", NOW)


def test_other_keys_and_bytes_are_refused(authority):
    with pytest.raises(TrustError, match="DER"):
        certificates.of_der(b"\x30\x03abc")
    with pytest.raises(TrustError, match="Ed25519"):
        certificates._ed25519(ec.generate_private_key(ec.SECP256R1()).public_key(), "certificate")


def test_openssl_takes_the_chain_and_the_list(authority, folder, tmp_path):
    key = keys.of_file(tmp_path / "device.key")
    revoked = authority.client("camera-07", key.public_key(), datetime.now(UTC))
    (tmp_path / "device.pem").write_bytes(certificates.as_pem(revoked))
    (tmp_path / "list.pem").write_bytes(
        authority.revocations([revoked.serial_number], datetime.now(UTC))
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "authority.pem")
    server.load_cert_chain(tmp_path / "device.pem", tmp_path / "device.key")
    server.load_verify_locations(tmp_path / "list.pem")
    server.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    assert server.cert_store_stats()["crl"] == 1
