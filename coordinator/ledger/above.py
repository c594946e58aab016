"""What the fleet above a site said last of its ledger: which classes there are, and the total to
count against. The site's devices hear it as the site's own word.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from coordinator.ledger.versions import OfferedTotal
from coordinator.messages import Messages
from protofleet import wire
from protofleet.exchange import published
from protofleet.exchange.published import Bank
from protofleet.mqtt.link.events import Publication


@dataclass(frozen=True)
class Above:
    """Two messages as they came, both checked by then; empty: nothing was said."""

    classes: bytes = b""
    total: bytes = b""

    @cached_property
    def bank(self) -> Bank | None:
        """What is classified with."""
        return published.read(self.classes).bank if self.classes else None

    def offered(self, lineage: str) -> OfferedTotal:
        """What devices are to count against: the total that the classes are of, once it is here."""
        bank = self.bank
        if bank is None or not self.total or bank.about.lineage != lineage:
            return OfferedTotal()
        if not bank.about.asked or wire.unseal(self.total)[0].base != bank.about.total:
            return OfferedTotal()
        return OfferedTotal(lineage, bank.about.total, 0, bank.about.asked)

    def total_message(self, topic: str, messages: Messages) -> Publication:
        """The total as this site says it: the same body under its own name for the run."""
        envelope, body = wire.unseal(self.total)
        ours = replace(
            envelope,
            fleet=messages.topics.fleet,
            run=messages.contract.run,
            epoch=messages.epoch,
        )
        return Publication(topic, wire.enclose(ours, body), retain=True)

    def without_total(self) -> Above:
        """Somebody is in it who is forgotten."""
        return replace(self, total=b"")
