"""Certificates of a fleet: its authority, what it signs for devices and for the broker, and the
list of what it signed and takes back.
"""

# Theory of operation
#
# A fleet of invited devices has an authority of its own, which signs for nobody else:
#
#   certificate    says                          for
#   authority      CA, may sign certificates     ten years; its fingerprint is in every invitation
#                  and revocation lists
#   a device's     clientAuth, CN its agent id   90 days, renewed when a third of that is left
#   coordinator's  clientAuth, CN coordinator    the same
#   the broker's   serverAuth, its host names    the same
#
# mosquitto takes the common name for the user name, and the access rules go by that; so a name is
# in one certificate that is in force, and it is the registry of members that sees to it. Every
# certificate names its usage: a broker's does not open the broker's door, and nobody can be a
# broker with a device's.
#
# What is asked for is not what is signed. Of a request only the public key is taken, and the
# signature in it, by which the asker has the private one; name, usage and dates are the
# authority's own.
#
# A revocation list is in force for a year: a broker that finds it expired would let nobody in, and
# it is made anew whenever the coordinator starts, and with each device that is revoked.

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from protofleet.errors import TrustError
from protofleet.trust import keys
from protofleet.util.files import OWN_FILE, write_whole

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.serialization import Encoding

DAYS = 90  # a device's certificate
RENEW = 30  # days before its end from which a new one is asked for
AUTHORITY_DAYS = 3652
LIST_DAYS = 365
SKEW = timedelta(hours=1)  # clocks of devices differ
Usage = Literal["client", "server"]


@dataclass(frozen=True)
class Authority:
    """Who signs for a fleet."""

    key: Ed25519PrivateKey
    certificate: x509.Certificate

    @property
    def fingerprint(self) -> bytes:
        """The sha256 of its certificate, by which it is recognised."""
        return fingerprint(as_der(self.certificate))

    @classmethod
    def of_folder(cls, folder: Path, fleet: str, now: datetime) -> Authority:
        """The one that is kept there, or a new one that is kept there from now on."""
        key, path = keys.of_file(folder / "authority.key"), folder / "authority.pem"
        if not path.exists():
            write_whole(path, as_pem(_self_signed(key, fleet, now)), mode=OWN_FILE)
        return cls(key, of_pem(path))

    def client(
        self, name: str, key: Ed25519PublicKey, now: datetime, serial: int | None = None
    ) -> x509.Certificate:
        """For a device of this name, or for the coordinator; the same of the same serial."""
        return self._signed(name, key, now, "client", (), serial)

    def server(
        self, hosts: Sequence[str], key: Ed25519PublicKey, now: datetime
    ) -> x509.Certificate:
        """For a broker that is reached under these names."""
        return self._signed(hosts[0], key, now, "server", hosts)

    def revocations(self, serials: Iterable[int], now: datetime) -> bytes:
        """The list of what was signed and does not count any more, in PEM form."""
        from cryptography import x509

        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now - SKEW)
            .next_update(now + timedelta(days=LIST_DAYS))
        )
        for serial in sorted(serials):
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            builder = builder.add_revoked_certificate(revoked.build())
        return builder.sign(self.key, None).public_bytes(_pem())

    def _signed(
        self,
        name: str,
        key: Ed25519PublicKey,
        now: datetime,
        usage: Usage,
        hosts: Sequence[str],
        serial: int | None = None,
    ) -> x509.Certificate:
        from cryptography import x509

        builder = _builder(self.certificate.subject, name, key, now, DAYS, serial)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        ).add_extension(x509.ExtendedKeyUsage([_oid(usage)]), critical=False)
        if hosts:
            names = [_host(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, None)


def request(key: Ed25519PrivateKey, name: str) -> bytes:
    """What a device asks an authority to sign."""
    from cryptography import x509

    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(name))
    return builder.sign(key, None).public_bytes(_der())


def read_request(der: bytes) -> tuple[str, Ed25519PublicKey]:
    """The name that asks and its key, if it has the private one."""
    from cryptography import x509

    try:
        asked_for = x509.load_der_x509_csr(der)
        if not asked_for.is_signature_valid:
            raise TrustError("request: its signature does not hold")
        return common_name(asked_for.subject), _ed25519(asked_for.public_key(), "request")
    except TrustError:
        raise
    except Exception as error:  # whatever a stranger's bytes come to
        raise TrustError("request: no certificate request in DER form") from error


def check(
    certificate: x509.Certificate, authority: x509.Certificate, usage: Usage, now: datetime
) -> str:
    """The name that a certificate is good for: of this authority, for this usage, and now."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        raise TrustError("certificate: signed by another authority") from None
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        raise TrustError("certificate: it does not say what it is for") from None
    if _oid(usage) not in usages:
        raise TrustError(f"certificate: it is not for a {usage}")
    if now < certificate.not_valid_before_utc or now > certificate.not_valid_after_utc:
        ends = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
        raise TrustError(f"certificate: not in force at this time (it ends {ends})")
    return common_name(certificate.subject)


def is_due(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it is time to have it renewed."""
    return now >= certificate.not_valid_after_utc - timedelta(days=RENEW)


def common_name(subject: x509.Name) -> str:
    """The one common name of a subject."""
    from cryptography.x509.oid import NameOID

    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1 or len(list(subject)) != 1:
        raise TrustError("certificate: its subject is not one common name")
    return str(names[0].value)


def hosts(certificate: x509.Certificate) -> set[str]:
    """The names under which a server may be reached."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in names.value}


def key_of(certificate: x509.Certificate) -> Ed25519PublicKey:
    """Whose certificate it is, as a key."""
    return _ed25519(certificate.public_key(), "certificate")


def fingerprint(der: bytes) -> bytes:
    """By which a certificate is recognised."""
    return sha256(der).digest()


def as_der(certificate: x509.Certificate) -> bytes:
    """As it travels."""
    return certificate.public_bytes(_der())


def as_pem(certificate: x509.Certificate) -> bytes:
    """As it is kept."""
    return certificate.public_bytes(_pem())


def of_der(data: bytes) -> x509.Certificate:
    """A certificate that came."""
    from cryptography import x509

    try:
        return x509.load_der_x509_certificate(data)
    except Exception as error:  # whatever a stranger's bytes come to
        raise TrustError("certificate: no certificate in DER form") from error


def of_pem(path: Path) -> x509.Certificate:
    """A certificate that was kept."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise TrustError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise TrustError(f"{path}: no certificate in PEM form") from None


def _self_signed(key: Ed25519PrivateKey, fleet: str, now: datetime) -> x509.Certificate:
    from cryptography import x509

    name, public = f"{fleet} authority", key.public_key()
    usages = ("digital_signature", "key_cert_sign", "crl_sign")
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    allowed = dict.fromkeys(usages, True) | dict.fromkeys(others, False)
    usage = x509.KeyUsage(**allowed, encipher_only=False, decipher_only=False)
    builder = _builder(_name(name), name, public, now, AUTHORITY_DAYS)
    return (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, None)
    )


def _builder(
    issuer: x509.Name,
    name: str,
    key: Ed25519PublicKey,
    now: datetime,
    days: int,
    serial: int | None = None,
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(_name(name))
        .public_key(key)
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _oid(usage: Usage) -> x509.ObjectIdentifier:
    from cryptography.x509.oid import ExtendedKeyUsageOID as Usages

    return Usages.CLIENT_AUTH if usage == "client" else Usages.SERVER_AUTH


def _ed25519(key: object, where: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric import ed25519

    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise TrustError(f"{where}: not a key of Ed25519")
    return key


def _der() -> Encoding:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.DER


def _pem() -> Encoding:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.PEM
