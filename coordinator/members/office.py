"""Where devices are invited, let in, renewed and turned away: the authority and the registry
together.
"""

# Theory of operation
#
# Everything lies in `trust/` of the coordinator's data directory, readable by its owner alone:
#
#   authority.key, .pem      who signs certificates, and the list of the fleet's keys
#   fleet-N.key              what the coordinator signs its words with
#   ring.cose                those keys, under the authority's signature (`protofleet.trust.ring`)
#   members.db               the registry
#   coordinator.key, .pem    with which the coordinator opens the broker's door
#   bundles/                 the list of bundles (`vault`), but for the keys that are kept offline
#   broker/                  what a mosquitto is to be given, made anew with each change:
#     broker.key, broker.pem, authority.pem, revoked.pem, acl, door.acl, door.passwords
#
# A fleet is one by invitation as soon as `members.db` is there, which the first `coordinator
# invite` makes. From then on its coordinator signs, and takes nothing unsigned.
#
# Who may come in, in this order; the first that fails is what the device is answered:
#
#   the token is one that was given out     else there is no answer: nobody is to try names
#   its holder signed the question          else there is none, either
#   the key is new, or is the member's      the same key again is answered the same
#   that this token let in already
#   it has not ended, by our clock          expired
#   fewer came by it than it is for         used already
#   the name is the token's                 another name
#   nobody has that name                    taken
#
# A rotation of the fleet's key has two steps, so that no device has to know a key before it can
# hear of it: `rotate` lists the new key behind the old one, which still signs; `retire`, after the
# overlap, puts the new one first and takes the old one out. A device that was away all the while
# hears of it by the list itself, which is retained and signed by the authority.

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from coordinator.members.registry import InvitationRecord, MemberRecord, Registry, RegistryError
from coordinator.members.vault import Vault
from protofleet.errors import TrustError, UsageError
from protofleet.mqtt.broker.mosquitto import (
    COORDINATOR,
    BrokerFiles,
    acl_text,
    door_acl_text,
    passwords_text,
)
from protofleet.mqtt.topics import Topics, check_name
from protofleet.trust import certificates, joining, keys, tokens
from protofleet.trust import ring as rings
from protofleet.trust.certificates import Authority
from protofleet.trust.joining import Admission
from protofleet.trust.ring import Ring
from protofleet.trust.tokens import Invitation
from protofleet.util.files import OWN_FILE, own_folder, write_whole

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

FOLDER = "trust"
OVERLAP = 7 * 86_400.0  # seconds that two keys of the fleet are in force, unless it is said


@dataclass(frozen=True)
class Reach:
    """How devices reach the broker, and where who is not a member yet may ask."""

    broker: str
    door: str


class Office:
    """One fleet's."""

    def __init__(self, data_dir: Path, fleet: str, wall: Callable[[], float]) -> None:
        self.folder, self.fleet, self._wall = own_folder(data_dir / FOLDER), fleet, wall
        self.topics = Topics(fleet)
        self.authority = Authority.of_folder(self.folder, fleet, self._now)
        self.registry = Registry(self.folder / "members.db")
        self.ring = self._first_ring()

    def close(self) -> None:
        """Give the registry back."""
        self.registry.close()

    @property
    def vault(self) -> Vault:
        """The list of the fleet's bundles."""
        return Vault(self.folder, self._wall)

    @property
    def signed_ring(self) -> bytes:
        """The fleet's keys, as devices get them."""
        return (self.folder / "ring.cose").read_bytes()

    @property
    def key(self) -> Ed25519PrivateKey:
        """What the coordinator signs with."""
        for path in sorted(self.folder.glob("fleet-*.key")):
            key = keys.read(path)
            if keys.raw(key.public_key()) == self.ring.keys[0]:
                return key
        raise TrustError(f"{self.folder} has no key of the fleet's ring", "restore it")

    # invitations

    def invite(self, name: str, several: int, seconds: float, reach: Reach) -> str:
        """A token for a device of this name, or for so many whose names begin with it."""
        check_name("device", name)
        if name == COORDINATOR:
            raise UsageError(f"{name} is the coordinator's own name")
        member = self.registry.member(name)
        if not several and member is not None and member.revoked is None:
            raise UsageError(f"{name} is a member", f"`coordinator revoke {name}` makes room")
        seed = keys.new()
        token = Invitation(
            self.fleet,
            name,
            several > 0,
            seed.private_bytes_raw(),
            self.authority.fingerprint,
            reach.broker,
            reach.door,
            int(self._wall() + seconds),
        )
        public = keys.raw(seed.public_key())
        with self.registry.commit():
            self.registry.put_invitation(
                InvitationRecord(token.id, public, name, several, token.expires)
            )
        self._tell_the_door(token)
        return tokens.as_text(token)

    def answer(self, id: str, question: bytes) -> bytes:
        """What to say to who shows a token; `TrustError` to who shows none."""
        invitation = self.registry.invitation(id)
        if invitation is None:
            raise TrustError(f"nobody was invited as {id}")
        key = keys.public(invitation.key)
        name, request = joining.read_ask(question, key, self.topics.ask(id))
        topic = self.topics.answer(id)
        try:
            admission = self._let_in(invitation, name, request)
        except RegistryError:
            raise  # no answer: it asks again
        except TrustError as error:
            return joining.declined(self.authority, topic, question, error.words)
        return joining.admitted(self.authority, topic, question, admission)

    def renew(self, name: str, question: bytes) -> bytes:
        """A certificate for a member that has one already; it asked under its own signature."""
        topic, member = self.topics.certificate(name), self.registry.member(name)
        try:
            asked_by, request = certificates.read_request(question)
            if member is None or member.revoked is not None:
                raise TrustError(f"{name} is no member")
            if asked_by != name or keys.raw(request) != member.key:
                raise TrustError("it asks for another name, or another key")
        except TrustError as error:
            return joining.declined(self.authority, topic, question, error.words)
        with self.registry.commit():
            admission = self._admission(member, request)
        return joining.admitted(self.authority, topic, question, admission)

    def _let_in(self, invitation: InvitationRecord, name: str, request: bytes) -> Admission:
        _, public = certificates.read_request(request)
        raw = keys.raw(public)
        with self.registry.commit():
            members = self.registry.of_invitation(invitation.id)
            earlier = next((m for m in members if m.key == raw), None)
            if earlier is not None:
                if earlier.revoked is not None:
                    raise TrustError(f"{earlier.name} was revoked")
                return self._admission(earlier, public)
            if self._wall() > invitation.expires:
                raise TrustError("the invitation has expired")
            if len(members) >= max(invitation.several, 1):
                raise TrustError("the invitation was used already")
            if name != invitation.name:
                raise TrustError(f"the invitation is for {invitation.name}, not for {name}")
            name = self._free_name(invitation)
            member = MemberRecord(name, raw, invitation.id, self._wall(), None)
            self.registry.put_member(member)
            return self._admission(member, public)

    def _free_name(self, invitation: InvitationRecord) -> str:
        """The invitation's, or the next of a class."""
        in_force = {m.name for m in self.registry.members() if m.revoked is None}
        if not invitation.several:
            if invitation.name in in_force:
                raise TrustError(f"{invitation.name} is a member already")
            return invitation.name
        names = (f"{invitation.name}-{n}" for n in range(1, len(in_force) + 2))
        return check_name("device", next(name for name in names if name not in in_force))

    def _admission(self, member: MemberRecord, key: Ed25519PublicKey) -> Admission:
        """Of one member one certificate a day, however often it asks, or somebody its question
        again: each is a row here, and one of the list when it is revoked.
        """
        today = self._now.replace(hour=0, minute=0, second=0, microsecond=0)
        terms = f"{member.name} {member.invitation} {today:%Y-%m-%d} ".encode() + member.key
        serial = int.from_bytes(sha256(terms).digest()[:16]) + 1
        certificate = self.authority.client(member.name, key, today, serial)
        ends = certificate.not_valid_after_utc.timestamp()
        self.registry.put_certificate(serial, member.name, ends)
        return Admission(member.name, certificate, self.authority.certificate, self.signed_ring)

    # members

    def revoke(self, name: str) -> None:
        """A device is no member from now on, whatever it holds."""
        member = self.registry.member(name)
        if member is None or member.revoked is not None:
            raise UsageError(f"{name} is no member", "`coordinator devices` shows them")
        with self.registry.commit():
            self.registry.revoke(name, self._wall())
        self.write_broker_files(())

    def keys_of_members(self) -> Mapping[str, bytes]:
        """Whose signatures count."""
        return {m.name: m.key for m in self.registry.members() if m.revoked is None}

    # the fleet's key

    def rotate(self) -> Ring:
        """A new key is announced behind the one that signs."""
        if len(self.ring.keys) > 1:
            raise UsageError("a new key is announced already", "`coordinator keys retire` goes on")
        key = keys.of_file(self.folder / f"fleet-{self.ring.version + 1}.key")
        listed = (*self.ring.keys, keys.raw(key.public_key()))
        return self._write_ring(replace(self.ring, version=self.ring.version + 1, keys=listed))

    def retire(self) -> Ring:
        """The new key signs, and the old one is nobody's."""
        if len(self.ring.keys) < 2:
            raise UsageError("no new key is announced", "`coordinator keys rotate` makes one")
        newest = self.ring.keys[-1:]
        return self._write_ring(replace(self.ring, version=self.ring.version + 1, keys=newest))

    def reread(self) -> bool:
        """Whether a command changed the ring."""
        ring = self._read_ring()
        changed, self.ring = ring != self.ring, ring
        return changed

    def _first_ring(self) -> Ring:
        if (self.folder / "ring.cose").exists():
            return self._read_ring()
        key = keys.of_file(self.folder / "fleet-1.key")
        return self._write_ring(Ring(self.fleet, 1, (keys.raw(key.public_key()),)))

    def _read_ring(self) -> Ring:
        public = self.authority.key.public_key()
        return rings.read(self.signed_ring, public, self.topics.keys, self.fleet)

    def _write_ring(self, ring: Ring) -> Ring:
        data = rings.signed(ring, self.authority.key, self.topics.keys)
        write_whole(self.folder / "ring.cose", data, mode=OWN_FILE)
        self.ring = ring
        return ring

    # the broker

    def own_certificate(self) -> tuple[Path, Path, Path]:
        """Authority, certificate and key, for a broker that asks the coordinator who it is."""
        self._kept("coordinator", lambda key: self.authority.client(COORDINATOR, key, self._now))
        names = ("authority.pem", "coordinator.pem", "coordinator.key")
        authority, certificate, key = (self.folder / name for name in names)
        return authority, certificate, key

    def write_broker_files(self, urls: Sequence[str]) -> BrokerFiles:
        """What a mosquitto is to be given; URLs are those under which it is reached."""
        files = BrokerFiles(own_folder(self.folder / "broker"))
        hosts = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
        hosts += [urlsplit(url).hostname or "localhost" for url in urls]
        self._kept(
            "broker/broker",
            lambda key: self.authority.server([*dict.fromkeys(hosts)], key, self._now),
            hosts if urls else (),
        )
        revoked = [m.name for m in self.registry.members() if m.revoked is not None]
        serials = self.registry.serials(self._wall())
        for path, data in (
            (files.authority, certificates.as_pem(self.authority.certificate)),
            (files.acl, acl_text(self.fleet, revoked).encode()),
            (files.door_acl, door_acl_text(self.fleet).encode()),
            (files.revoked, self.authority.revocations(serials, self._now)),
        ):
            write_whole(path, data, mode=OWN_FILE)
        if not files.door_passwords.exists():
            write_whole(files.door_passwords, b"", mode=OWN_FILE)
        return files

    def _kept(
        self,
        name: str,
        sign: Callable[[Ed25519PublicKey], x509.Certificate],
        hosts: Sequence[str] = (),
    ) -> None:
        """A key and a certificate of our own, made if need be; of these hosts."""
        key, path = keys.of_file(self.folder / f"{name}.key"), self.folder / f"{name}.pem"
        old = certificates.of_pem(path) if path.exists() else None
        if (
            old is None
            or certificates.is_due(old, self._now)
            or not set(hosts) <= certificates.hosts(old)
        ):
            write_whole(path, certificates.as_pem(sign(key.public_key())), mode=OWN_FILE)

    def _tell_the_door(self, token: Invitation) -> None:
        """At a broker with a door, an invitation is a login there: nobody else gets that far."""
        files = self.write_broker_files((token.broker, token.door))
        open_now = {i.id for i in self.registry.invitations() if i.expires > self._wall()}
        lines = files.door_passwords.read_text().splitlines()
        stay = [line for line in lines if line.partition(":")[0] in open_now - {token.id}]
        salt = keys.name(token.seed) + keys.name(token.authority)
        new = passwords_text({token.id: token.password}, {token.id: salt[:12]})
        text = "".join(f"{line}\n" for line in stay) + new
        write_whole(files.door_passwords, text.encode(), mode=OWN_FILE)

    @property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._wall(), UTC)


def is_by_invitation(data_dir: Path) -> bool:
    """Whether this coordinator's fleet was made by invitation."""
    return (data_dir / FOLDER / "members.db").exists()
