"""From what the broker brings to what it means to the device: an event, or one of our errors and
nothing changed.
"""

# Theory of operation
#
# Every payload passes here on its way from the link to the machine:
#
#   topic           message          becomes                     done here before that
#   c/state         state            Coordinator                 -
#   g/round         round            Announced                   contract checked, packet size noted
#   g/train         global           Shared                      stored
#   d/<id>/down     own              Own                         stored
#   g/train, down   slip             nothing, or as the state    fetch begun
#   .../blob/...    a chunk          nothing, or as the payload  put in its place
#   g/group,        group            Called                      its letter read
#     d/<id>/box
#   d/<id>/rcpt     receipt          Receipt                     checked to be for our bytes
#   anything else, or empty          nothing                     -
#
# Three things hold, and the loop relies on them:
#
# - Whatever the bytes are, the answer is an event, None or a `FleetError`. The loop acknowledges
#   the message in each of these cases: one that cannot be used today cannot be used tomorrow
#   either, and too many that are not acknowledged end all delivery.
# - A state is in the store before its event exists, so the machine may order training on it at
#   once, in another process and after a crash.
# - A state's body is not decoded here. The daemon never needs the numbers, only the training
#   process does, and it decodes from the store; so a large state costs the daemon no memory
#   beside its bytes.
#
# A state too large for one packet comes as a slip. Where the state is here already (from an
# earlier life, or the retained slip after a reconnect) the slip is as good as the state, and
# nothing is fetched. Otherwise its chunks are gathered until the payload is whole, which then is
# taken in as if it had arrived on the topic the slip came on.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from edge_agent.daemon.masker import Masker
from edge_agent.daemon.transfers import Transfers
from edge_agent.protocol.events import (
    Announced,
    Called,
    Coordinator,
    Event,
    Own,
    Ranges,
    Receipt,
    RoundSpec,
    Shared,
)
from edge_agent.records import HeldState
from edge_agent.store import Store
from protofleet import wire
from protofleet.contract import Contract
from protofleet.errors import LinkError, WireError
from protofleet.exchange.lots import read_lots
from protofleet.masking.letters import decode_letter
from protofleet.mqtt.topics import TopicParts, Topics
from protofleet.settings.fields import from_plain
from protofleet.wire import Envelope
from protofleet.wire.codes import UploadStatus

# What is said where; a state that is too large is said by a slip. A device is subscribed to more
# than this (its bundle's channel, commands): that is for others.
TYPES = {
    "coordinator_state": "state",
    "round": "round",
    "shared_state": "global",
    "own_state": "own",
    "group": "group",
    "box": "group",
    "receipt": "receipt",
}
# What a slip on such a topic may stand for.
LARGE_TYPES = {"shared_state": "global", "own_state": "own", "group": "group", "box": "group"}


class InboundDecoder:
    """Opens messages; what must not be lost is in the store before this returns."""

    def __init__(self, topics: Topics, store: Store, transfers: Transfers, masker: Masker) -> None:
        self.topics = topics
        self.store = store
        self.transfers = transfers
        self.masker = masker

    def take_in(self, place: TopicParts, payload: bytes) -> Event | None:
        """The event that a payload is, if it is one for us; one of our errors if it cannot be
        used.
        """
        if place.kind in ("shared_chunk", "own_chunk"):
            blob = self.transfers.receiver.chunk(place, payload)
            return None if blob is None else self.take_in(blob.parts, blob.payload)
        if place.kind not in TYPES or not payload:
            return None  # an empty payload takes a retained message back
        envelope, body = wire.unseal(payload)
        if envelope.fleet != self.topics.fleet:
            raise LinkError(
                f"it is of fleet {envelope.fleet!r}, this device is of {self.topics.fleet!r}"
            )
        if envelope.t != TYPES[place.kind] and envelope.t != "slip":
            raise LinkError(f"a message of type {envelope.t} has no place here")
        if envelope.t in ("global", "own"):
            event = read_state(envelope)
            self.store.hold(envelope.t, HeldState(event.run, event.round, event.base, payload))
            return event
        if envelope.t == "group":
            run, epoch = _speaker(envelope)
            round = _number(envelope.round, "group.round")
            return Called(run, epoch, round, decode_letter(body))
        document = wire.decode_body(envelope, body)
        if envelope.t == "slip":
            digest = sha256(body).hexdigest()
            return self._slip(place, wire.Message(envelope, document, digest))
        return self._document(envelope, document)

    def _slip(self, place: TopicParts, message: wire.Message) -> Event | None:
        """What is too large for one message; no state is fetched that is here already."""
        kind = LARGE_TYPES.get(place.kind, "")
        if message.body.get("of") != kind:
            raise LinkError(f"a slip for {message.body.get('of')!r} has no place here")
        if kind in ("global", "own"):
            event = read_state(replace(message.envelope, t=kind))
            if self.store.held(kind, event.run, event.round, event.base) is not None:
                return event
        blob = self.transfers.receiver.announce(place, message)
        return None if blob is None else self.take_in(blob.parts, blob.payload)

    def _document(self, envelope: Envelope, body: Mapping[str, Any]) -> Event | None:
        match envelope.t:
            case "state":
                return read_coordinator(envelope, body)
            case "round":
                announced, packet = read_announcement(envelope, body), read_packet(body)
                self.masker.announced(announced.spec)
                self.transfers.packet = packet or self.transfers.packet
                return announced
            case "receipt":
                receipt = read_receipt(envelope, body)
                return receipt if self._is_ours(receipt) else None
        return None

    def _is_ours(self, receipt: Receipt) -> bool:
        """A receipt is for the bytes that were sent: one from before may be about others."""
        unread = receipt.status == UploadStatus.REFUSED and not receipt.digest
        if unread or receipt.status == UploadStatus.CONFLICT:
            return True  # the coordinator could not read ours at all, or has other bytes
        upload = self.store.upload(receipt.run, receipt.round)
        if upload is None or not receipt.digest:
            return False
        if self.masker.is_masked(receipt.run):
            letter = self.masker.digest(receipt.run, receipt.round)
            if letter == receipt.digest:
                return True
        # A large upload went out under the digest of the whole message, not of its body.
        blob = self.transfers.digest(receipt.run, receipt.round)
        return receipt.digest in (upload.digest, blob)


def read_coordinator(envelope: Envelope, body: Mapping[str, Any]) -> Coordinator:
    """What the coordinator says of itself."""
    run, epoch = _speaker(envelope)
    return Coordinator(
        run,
        epoch,
        body.get("online") is True,
        body.get("mode") == "async",
        envelope.boot or "",
        body.get("budget") is True,
    )


def read_announcement(envelope: Envelope, body: Mapping[str, Any]) -> Announced:
    """An announced round, its contract checked."""
    run, epoch = _speaker(envelope)
    contract = body.get("contract")
    if not isinstance(contract, Mapping):
        raise WireError("round.body.contract: missing")
    # It is passed on as it came, for the training process to read.
    agreed = from_plain(Contract, contract, "contract")
    participants, hyper = body.get("participants"), body.get("hyper", {})
    if participants is not None and not (
        isinstance(participants, list) and all(isinstance(agent, str) for agent in participants)
    ):
        raise WireError("round.body.participants: neither a list of names nor null")
    if not isinstance(hyper, Mapping):
        raise WireError("round.body.hyper: not a map")
    number = _number(envelope.round, "round.round")
    return Announced(
        run,
        epoch,
        number,
        str(body.get("phase", "")),
        None if participants is None else tuple(participants),
        _number(body.get("base_round"), "round.body.base_round"),
        _text(envelope.base, "round.base"),
        body.get("own") is True,
        RoundSpec(run, _text(envelope.method, "round.method"), contract, hyper),
        read_lots(body, agreed, number),
    )


def read_packet(body: Mapping[str, Any]) -> int:
    """The largest packet that the broker takes, as an announcement says it; 0 if it does not."""
    return _number(body.get("packet", 0), "round.body.packet")


def read_state(envelope: Envelope) -> Shared | Own:
    """A state that arrived, by its envelope alone."""
    run, epoch = _speaker(envelope)
    kind = Shared if envelope.t == "global" else Own
    return kind(
        run,
        epoch,
        _number(envelope.round, f"{envelope.t}.round"),
        _text(envelope.base, f"{envelope.t}.base"),
    )


def read_receipt(envelope: Envelope, body: Mapping[str, Any]) -> Receipt:
    """The coordinator's answer to an upload."""
    run, epoch = _speaker(envelope)
    return Receipt(
        run,
        epoch,
        _number(body.get("round", envelope.round), "receipt.body.round"),
        str(body.get("status", "")),
        str(body.get("reason", "")),
        str(body.get("words", "")),
        str(body.get("digest", "")),
        read_ranges(body.get("missing", []), "receipt.body.missing"),
    )


def read_ranges(raw: Any, where: str) -> Ranges:
    """Pairs of first and last, both counted in."""
    if not isinstance(raw, list):
        raise WireError(f"{where}: not a list")
    ranges = []
    for pair in raw:
        # `type(n) is int`, because True is an instance of int.
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)):
            raise WireError(f"{where}: not a list of pairs of numbers")
        if not 0 <= pair[0] <= pair[1]:
            raise WireError(f"{where}: {pair} is no range")
        ranges.append((pair[0], pair[1]))
    return tuple(ranges)


def _speaker(envelope: Envelope) -> tuple[str, int]:
    return _text(envelope.run, f"{envelope.t}.run"), _number(envelope.epoch, f"{envelope.t}.epoch")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise WireError(f"{where}: missing")
    return value


def _number(value: object, where: str) -> int:
    if type(value) is not int or value < 0:
        raise WireError(f"{where}: missing, or not a number from 0 up")
    return value
