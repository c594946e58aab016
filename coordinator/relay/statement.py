"""What a site has to say upward, made of what its ledger has now: pure functions of values."""

from __future__ import annotations

from dataclasses import dataclass, replace

from coordinator.core import Core
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.versions import CountTotal
from protofleet import wire
from protofleet.exchange import contributed, relayed
from protofleet.exchange.contributed import Claim
from protofleet.exchange.relayed import RELAY, RELAY_COUNT, RelayClaim
from protofleet.wire import Envelope


@dataclass(frozen=True)
class SiteVoice:
    """Who says it, and to whom; nothing that changes from one time to the next, so the same sums
    are the same bytes.
    """

    fleet: str
    site: str
    run: str = ""

    def envelope(self, method: str) -> Envelope:
        """Of its messages."""
        return Envelope("enrol", self.fleet, self.run or None, agent=self.site, method=method)


def sums(ledger: Ledger, voice: SiteVoice) -> bytes:
    """The sum of all that its devices contributed; that there is nothing, where there is nothing
    any more.
    """
    if not ledger.entries:
        withdrawal = Claim(ledger.lineage)
        return contributed.write_withdrawal(withdrawal, voice.envelope(contributed.WITHDRAW))
    _, total = ledger.canonical()
    claim = relayed.names_of(ledger.lineage, ledger.devices, ledger.agents)
    claim = replace(claim, buckets=ledger.buckets)
    return relayed.write_total(claim, total, voice.envelope(RELAY))


def upload(core: Core, voice: SiteVoice) -> tuple[int, bytes]:
    """What its devices come to in the round that it has cut, and which that is."""
    number, base, parts = core.pooled()
    method = core.terms.expected.recipe.name
    envelope = replace(voice.envelope(method), t="upload", round=number, base=base)
    return number, wire.encode(envelope, parts, "float32")


def counted(tally: CountTotal, ledger: Ledger, voice: SiteVoice) -> bytes | None:
    """What those of them counted that contribute still; None where nobody did."""
    members = tuple(sorted(tally.devices & {*ledger.agents}))
    if not members or len(members) < len(tally.devices):
        return None
    buckets = ledger.buckets
    claim = RelayClaim(ledger.lineage, members, total=tally.total, buckets=buckets)
    return relayed.write_counts(claim, tally.by_bucket(buckets), voice.envelope(RELAY_COUNT))
