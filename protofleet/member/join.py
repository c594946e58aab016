"""`edge-agent join`: from a token to a key, a certificate and the fleet's keys.

The protocol is told in `protofleet.trust.joining`. The key is written before it is shown, and
`member.json` last: a device that is cut off anywhere joins by the same command and the same token.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from protofleet.errors import FleetError, LinkError, TrustError, UsageError
from protofleet.member import membership
from protofleet.member.membership import FleetMember
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival, Lost, Refused
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import Topics
from protofleet.trust import certificates, joining, keys
from protofleet.trust import ring as rings
from protofleet.trust.joining import Admission
from protofleet.trust.listing import BundleList
from protofleet.trust.sequence import CLASSIFIER, DAEMON
from protofleet.trust.tokens import Invitation
from protofleet.util.files import OWN_FILE, own_folder, write_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

AGAIN = 5.0  # seconds until it asks again: the coordinator may be starting
REFUSED = "it may have been used, or have expired; `coordinator invite` makes another"

Tell = Callable[[str], None]


def join(
    token: Invitation, data_dir: Path, *, anew: bool, patience: float, tell: Tell
) -> FleetMember:
    """Be let in by the coordinator; one of our errors if it does not, or nobody answers."""
    earlier = membership.of_folder(data_dir)
    if earlier is not None and not anew:
        raise UsageError(
            f"this device joined {earlier.fleet} as {earlier.name}", "--force joins anew"
        )
    folder = own_folder(own_folder(data_dir) / membership.FOLDER)
    if earlier is not None:
        for path in (folder / "member.json", earlier.key, earlier.certificate):
            path.unlink(missing_ok=True)
    key, topics = keys.of_file(folder / "device.key"), Topics(token.fleet)
    request = certificates.request(key, token.name)
    question = joining.ask(token.key, topics.ask(token.id), token.name, request)
    data = _asked(token, topics, question, patience, tell)
    admission = joining.read_answer(data, token.authority, topics.answer(token.id), question)
    check(admission, key.public_key(), topics, token.name)
    member = FleetMember(token.fleet, admission.name, token.broker, folder)
    write_admission(member, admission)
    membership.write(member)
    return member


def check(
    admission: Admission,
    key: Ed25519PublicKey,
    topics: Topics,
    name: str,
) -> None:
    """Whether what the authority signed is what this device asked for."""
    # By the certificate's own dates: a device's clock may stand anywhere.
    begins = admission.certificate.not_valid_before_utc
    signed_for = certificates.check(admission.certificate, admission.authority, "client", begins)
    if keys.raw(certificates.key_of(admission.certificate)) != keys.raw(key):
        raise TrustError("answer: the certificate is for another key")
    if signed_for != admission.name or not admission.name.startswith(name):
        raise TrustError(f"answer: the certificate is for another name, {signed_for}")
    authority = certificates.key_of(admission.authority)
    rings.read(admission.ring, authority, topics.keys, topics.fleet)


def write_admission(member: FleetMember, admission: Admission) -> None:
    """What a connection is made with from now on; every file is whole or the one before."""
    for path, data in (
        (member.authority, certificates.as_pem(admission.authority)),
        (member.ring, admission.ring),
        (member.certificate, certificates.as_pem(admission.certificate)),
    ):
        write_whole(path, data, mode=OWN_FILE)
    for lane in (DAEMON, CLASSIFIER):
        BundleList(member.listing(lane)).pin(admission.root)


def door(token: Invitation) -> Address:
    """Where the token is shown. Nobody knows yet whose certificate the broker must have; what is
    said there is signed by both ends and no secret.
    """
    address = Address.parse(token.door)
    if not address.tls:
        return address
    return replace(address, username=token.id, password=token.password, unchecked=True)


def _asked(
    token: Invitation, topics: Topics, question: bytes, patience: float, tell: Tell
) -> bytes:
    """The answer's bytes, whoever sent them."""
    address = door(token)
    settings = LinkSettings(clean_start=True, session_expiry=0)
    link = Link(address, token.id, settings, rng=random.Random())
    link.subscribe([(topics.answer(token.id), 1)])
    link.start()
    try:
        until, again, trouble = time.monotonic() + patience, 0.0, ""
        while (now := time.monotonic()) < until:
            if link.connected and now >= again:
                link.publish(topics.ask(token.id), question)
                again = now + AGAIN
            for event in link.poll(min(0.5, until - now)):
                match event:
                    case Arrival(_, payload):
                        link.ack(event)
                        if _is_for_us(token, topics, payload, question, tell):
                            return payload
                    case Refused(reason):
                        raise LinkError(f"{address} refuses this token: {reason}", REFUSED)
                    case Lost(reason) if reason != trouble:
                        trouble = reason
                        tell(f"no connection, trying on: {reason}")
    finally:
        link.stop(patience=1.0)
    why = trouble or "no coordinator answered: does it run, and was the token given out by it?"
    raise LinkError(f"{address}: {why}")


def _is_for_us(
    token: Invitation, topics: Topics, payload: bytes, question: bytes, tell: Tell
) -> bool:
    """Whether the authority said it; what others say there is one line."""
    try:
        joining.read_answer(payload, token.authority, topics.answer(token.id), question)
    except joining.Declined:
        return True  # it is raised where the answer is read
    except FleetError as error:
        tell(f"an answer that nobody stands for: {error}")
        return False
    return True
