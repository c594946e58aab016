"""What the broker brings, as events; what must not be lost is in the store before this returns."""

from __future__ import annotations

from dataclasses import replace

from edge_agent.daemon import inbound
from edge_agent.daemon.transfers import Transfers
from edge_agent.protocol.events import Announced, Event, Receipt
from edge_agent.records import HeldState
from edge_agent.store import Store
from edge_agent.worker.ipc import RoundSpec
from protofleet import wire
from protofleet.errors import LinkError
from protofleet.mqtt.topics import TopicParts, Topics

HEARD = frozenset(
    {"coordinator_state", "round", "shared_state", "own_state", "receipt"}
)  # the rest is kept for what comes next
Plans = dict[Announced, RoundSpec]


class InboundDecoder:
    """Opens messages. `plans` gets what each announcement says about training."""

    def __init__(self, topics: Topics, store: Store, transfers: Transfers, plans: Plans) -> None:
        self.topics = topics
        self.store = store
        self.transfers = transfers
        self.plans = plans

    def take_in(self, place: TopicParts, payload: bytes) -> Event | None:
        """The event that a payload is, if it is one for us; one of our errors if it cannot be
        used.
        """
        if place.kind in ("shared_chunk", "own_chunk"):
            whole = self.transfers.chunk(place.rest[0], int(place.rest[1]), payload)
            return None if whole is None else self.take_in(whole.place, whole.payload)
        if place.kind not in HEARD or not payload:
            return None  # an empty payload takes a retained message back
        envelope, _ = wire.unseal(payload)
        if envelope.fleet != self.topics.fleet:
            raise LinkError(
                f"it is of fleet {envelope.fleet!r}, this device is of {self.topics.fleet!r}"
            )
        if envelope.t == "slip":
            return self._slip(place, wire.decode(payload))
        if envelope.t in ("global", "own"):
            found = inbound.state(envelope)
            self.store.hold(envelope.t, HeldState(found.run, found.round, found.base, payload))
            return found
        return self._document(envelope, wire.decode(payload).body)

    def _slip(self, place: TopicParts, message: wire.Message) -> Event | None:
        """A state too large for one message; nothing is fetched that is here already."""
        kind = {"shared_state": "global", "own_state": "own"}.get(place.kind, "")
        if message.body.get("of") != kind:
            raise LinkError(f"a slip for {message.body.get('of')!r} has no place here")
        found = inbound.state(replace(message.envelope, t=kind))
        if self.store.held(kind, found.run, found.round, found.base) is not None:
            return found
        whole = self.transfers.slip(place, message)
        return None if whole is None else self.take_in(whole.place, whole.payload)

    def _document(self, envelope: wire.Envelope, body: dict[str, object]) -> Event | None:
        match envelope.t:
            case "state":
                return inbound.coordinator(envelope, body)
            case "round":
                announced = inbound.announcement(envelope, body)
                self.plans[announced.event] = announced.plan
                self.transfers.packet = announced.packet or self.transfers.packet
                return announced.event
            case "receipt":
                found = inbound.receipt(envelope, body)
                return found if self._is_ours(found) else None
        return None

    def _is_ours(self, found: Receipt) -> bool:
        """A receipt is for the bytes that were sent: one from before may be about others."""
        if found.status == "conflict" or (found.status == "refused" and not found.digest):
            return True  # the coordinator has other bytes, or could not read ours at all
        upload = self.store.upload(found.run, found.round)
        return upload is not None and found.digest in (
            upload.digest,
            self.transfers.digest(found.run, found.round),
        )
