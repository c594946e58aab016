"""What a site does not decide: method, settings and contract are the fleet's above, as that
announces them to whoever takes part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from coordinator.journal.journal import Journal
from protofleet import registry, wire
from protofleet.contract import Contract
from protofleet.errors import UsageError, WireError
from protofleet.mqtt.link.events import Event
from protofleet.mqtt.link.link import Arrival, Connected, Lost, Refused
from protofleet.mqtt.topics import Topics
from protofleet.recipe import no_rooms
from protofleet.settings.fields import from_plain, to_plain
from protofleet.util.logs import Log
from protofleet.wire import Message

LEDGER = "fleet"  # the method whose sums are a ledger's; of others a site says rounds'


@dataclass(frozen=True)
class FleetAgreement:
    """As it is announced; `run` is the fleet's above, never the site's own."""

    method: str
    settings: Mapping[str, Any]
    contract: Contract
    run: str = ""
    packet: int = 0  # what its broker takes
    staleness: int = 0  # rounds that an upload may be late

    @staticmethod
    def of(message: Message) -> FleetAgreement:
        """An announcement, checked; one of our errors for what is none, or for what no site can
        take part in.
        """
        envelope, body = message.envelope, message.body
        plain, settings = body.get("contract"), body.get("hyper")
        if envelope.t != "round" or not isinstance(plain, Mapping):
            raise WireError("round.body.contract: missing")
        if not isinstance(settings, Mapping) or not envelope.run or not envelope.method:
            raise WireError("round: run, method and settings are due")
        packet = body.get("packet", 0)
        packet = packet if type(packet) is int and packet > 0 else 0
        contract = from_plain(Contract, plain, "contract")
        stale = body.get("staleness", 0)
        stale = stale if type(stale) is int else 0
        said = (envelope.method, settings, contract, envelope.run, packet, stale)
        return FleetAgreement(*said).checked()

    @staticmethod
    def of_journal(journal: Journal) -> FleetAgreement | None:
        """What this site went by in its earlier lives."""
        text = journal.meta("agreement")
        if text is None:
            return None
        known = json.loads(text)
        contract = from_plain(Contract, known["contract"], "contract")
        return FleetAgreement(known["method"], known["settings"], contract)

    def checked(self) -> FleetAgreement:
        """Itself, if a site can speak for its devices in such a fleet."""
        contract = self.contract
        if self.method != LEDGER:
            return self._checked_rounds()
        buckets = from_plain(registry.load(LEDGER).hyper, self.settings).buckets
        if contract.masks is not None and buckets > 1:
            words = "the fleet above takes masked sums in buckets, which a site's group is not in"
            raise UsageError(words, "its devices go to its own broker")
        if contract.budget is not None:
            words = "the fleet above has a budget, which is of one sum of all devices"
            raise UsageError(words, "its devices go to its own broker")
        return self

    def _checked_rounds(self) -> FleetAgreement:
        """The same of a method of rounds: what its uploads come to must be sums, of devices that
        everybody can see, in rounds that everybody is in.
        """
        if registry.load(self.method).rooms is no_rooms:
            words = f"{self.method} keeps uploads whole, and a site says what they add up to"
        elif self.contract.masks is not None:
            words = "the fleet above takes masked sums in rounds, which are one group's"
        elif self.contract.budget is not None:
            words = "the fleet above has a budget, which is of one sum of all devices"
        elif self.staleness:
            words = "the fleet above takes late uploads, which a site's sum cannot tell apart"
        else:
            return self
        raise UsageError(words, "its devices go to its own broker")

    @property
    def has_rounds(self) -> bool:
        """Whether devices train in rounds."""
        return self.method != LEDGER

    def differs(self, other: FleetAgreement) -> str:
        """What is another than there; empty if nothing that a site's sums depend on is."""
        if self.method != other.method:
            return "method"
        if self.has_rounds and self.contract.run != other.contract.run:
            return "run"  # what devices train is drawn by its name
        hyper = registry.load(self.method).hyper
        if from_plain(hyper, self.settings) != from_plain(hyper, other.settings):
            return "settings"
        ours, theirs = (to_plain(replace(one.contract, run="", fleet="")) for one in (self, other))
        changed = [name for name in ours if ours[name] != theirs.get(name)]
        return f"contract.{changed[0]}" if changed else ""

    def terms(self, fleet: str, run: str) -> tuple[Contract, Any]:
        """What the site's own coordinator goes by: the same; of a ledger in a run of its own, so
        that devices say everything anew to a site that lost its journal.
        """
        recipe = registry.load(self.method)
        hyper = from_plain(recipe.hyper, self.settings, "settings")
        run = self.contract.run if self.has_rounds else run
        return replace(self.contract, fleet=fleet, run=run), hyper


class Hearing:
    """Waits for the fleet above to announce itself, before a site's first life can begin."""

    def __init__(self, topics: Topics, log: Log) -> None:
        self.topics, self._log = topics, log
        self.agreement: FleetAgreement | None = None

    def heard(self, event: Event) -> None:
        """What the link brought; `UsageError` if no site can take part."""
        match event:
            case Connected():
                self._log.info("waiting for what the fleet above agreed on")
            case Lost(reason):
                self._log.warning(f"no connection to the fleet above, trying on: {reason}")
            case Refused(reason):
                raise UsageError(f"the broker above refuses us: {reason}")
            case Arrival(topic, payload) if topic == self.topics.round and payload:
                with suppress(WireError):
                    self.agreement = FleetAgreement.of(wire.decode(payload))
