"""From a message to what it means to the device; what means nothing raises one of our errors and
changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge_agent.protocol.events import Announced, Coordinator, Own, Ranges, Receipt, Shared
from edge_agent.worker.ipc import RoundSpec
from protofleet.contract import Contract
from protofleet.errors import WireError
from protofleet.settings.fields import from_plain
from protofleet.wire import Envelope


@dataclass(frozen=True)
class RoundAnnouncement:
    """An announcement: the event, and what training and sending need to know."""

    event: Announced
    plan: RoundSpec
    packet: int


def coordinator(envelope: Envelope, body: Mapping[str, Any]) -> Coordinator:
    """What the coordinator says of itself."""
    run, epoch = _who(envelope)
    return Coordinator(
        run, epoch, body.get("online") is True, body.get("mode") == "async", envelope.boot or ""
    )


def announcement(envelope: Envelope, body: Mapping[str, Any]) -> RoundAnnouncement:
    """An announced round, its contract checked."""
    run, epoch = _who(envelope)
    contract = body.get("contract")
    if not isinstance(contract, Mapping):
        raise WireError("round.body.contract: missing")
    from_plain(Contract, contract, "contract")
    asked, hyper = body.get("participants"), body.get("hyper", {})
    if asked is not None and not (
        isinstance(asked, list) and all(isinstance(a, str) for a in asked)
    ):
        raise WireError("round.body.participants: neither a list of names nor null")
    if not isinstance(hyper, Mapping):
        raise WireError("round.body.hyper: not a map")
    event = Announced(
        run,
        epoch,
        _number(envelope.round, "round.round"),
        str(body.get("phase", "")),
        None if asked is None else tuple(asked),
        _number(body.get("base_round"), "round.body.base_round"),
        _text(envelope.base, "round.base"),
        body.get("own") is True,
    )
    plan = RoundSpec(run, _text(envelope.method, "round.method"), contract, hyper)
    return RoundAnnouncement(event, plan, _number(body.get("packet", 0), "round.body.packet"))


def state(envelope: Envelope) -> Shared | Own:
    """A state that arrived, by its envelope alone."""
    run, epoch = _who(envelope)
    made = Shared if envelope.t == "global" else Own
    return made(
        run,
        epoch,
        _number(envelope.round, f"{envelope.t}.round"),
        _text(envelope.base, f"{envelope.t}.base"),
    )


def receipt(envelope: Envelope, body: Mapping[str, Any]) -> Receipt:
    """The coordinator's answer to an upload."""
    run, epoch = _who(envelope)
    return Receipt(
        run,
        epoch,
        _number(body.get("round", envelope.round), "receipt.body.round"),
        str(body.get("status", "")),
        str(body.get("reason", "")),
        str(body.get("words", "")),
        str(body.get("digest", "")),
        ranges(body.get("missing", []), "receipt.body.missing"),
    )


def ranges(raw: Any, where: str) -> Ranges:
    """Pairs of first and last, both counted in."""
    if not isinstance(raw, list):
        raise WireError(f"{where}: not a list")
    found = []
    for pair in raw:
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)):
            raise WireError(f"{where}: not a list of pairs of numbers")
        if not 0 <= pair[0] <= pair[1]:
            raise WireError(f"{where}: {pair} is no range")
        found.append((pair[0], pair[1]))
    return tuple(found)


def _who(envelope: Envelope) -> tuple[str, int]:
    return _text(envelope.run, f"{envelope.t}.run"), _number(envelope.epoch, f"{envelope.t}.epoch")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise WireError(f"{where}: missing")
    return value


def _number(value: object, where: str) -> int:
    if type(value) is not int or value < 0:
        raise WireError(f"{where}: missing, or not a number from 0 up")
    return value
