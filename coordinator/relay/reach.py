"""How a site reaches the fleet above: as whoever its settings say, or as the member that it
joined as.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.config import FleetConfig, RelaySection
from coordinator.relay.agreement import FleetAgreement, Hearing
from coordinator.relay.site import SiteTerms, will
from protofleet.errors import UsageError
from protofleet.member import membership
from protofleet.member.sealed_link import SealedLink, sealed_link
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival, LinkSettings
from protofleet.mqtt.topics import Topics
from protofleet.trust.sequence import DAEMON
from protofleet.util.files import own_folder
from protofleet.util.logs import Log

if TYPE_CHECKING:
    from protofleet.member.membership import FleetMember

NAP = 0.5  # seconds between looks at whether it is to end
NO_SECRETS: Mapping[str, str] = {}  # those of the environment are for the site's own broker


@dataclass(frozen=True)
class FleetAbove:
    """Where it is; `member` where words are signed."""

    section: RelaySection
    fleet: str
    member: FleetMember | None
    log: Log

    @property
    def address(self) -> Address:
        """Of its broker."""
        section = self.section
        if self.member is None:
            return section.address(NO_SECRETS)
        address = membership.with_certificates(section, self.member).address(NO_SECRETS)
        return replace(address, member=self.member.folder.parent)

    def link(self, terms: SiteTerms) -> SealedLink:
        """For a life."""
        # A clean start: all that is said there is retained, or said again.
        return self._link(terms.name, LinkSettings(will=will(terms), clean_start=True))

    def agreement(self, stopped: Callable[[], bool]) -> FleetAgreement | None:
        """What it announces, once it does; None if that is not waited for any more."""
        topics = Topics(self.fleet)
        hearing = Hearing(topics, self.log)
        # Under a name of its own where brokers do not care: it is no life yet.
        name = self.section.name
        if self.member is None:
            name = f"{name}-{secrets.token_hex(4)}"
        link = self._link(name, LinkSettings(clean_start=True, session_expiry=0))
        link.subscribe([(topics.round, 1)])
        link.start()
        try:
            while hearing.agreement is None and not stopped():
                for event in link.poll(NAP):
                    hearing.heard(event)
                    if isinstance(event, Arrival):
                        link.ack(event)
            return hearing.agreement
        finally:
            link.stop(patience=1.0)

    def _link(self, name: str, settings: LinkSettings) -> SealedLink:
        speaker = self.member, DAEMON
        return sealed_link(self.address, name, settings, speaker, self.log, random.Random())


def join(token: str, data_dir: Path, tell: Callable[[str], None]) -> None:
    """Be a member of the fleet above, unless this site is."""
    from protofleet.member import join as joining
    from protofleet.trust import tokens

    if membership.of_folder(data_dir) is None:
        invitation = tokens.of_text(token)
        joining.join(invitation, own_folder(data_dir), anew=False, patience=60.0, tell=tell)


def settled(plan: FleetConfig) -> tuple[FleetConfig, FleetMember | None]:
    """With what this site joined in place of what nobody said."""
    member, relay, serve = membership.of_folder(plan.data_dir), plan.relay, plan.serve
    if member is not None:
        if relay.name not in ("", member.name):
            raise UsageError(f"this site joined the fleet above as {member.name}")
        relay = replace(relay, url=relay.url or member.broker, name=member.name)
        serve = replace(serve, fleet=member.fleet)
    if not relay.url:
        raise UsageError(
            "which fleet is above is not said", "--up mqtts://HOST:8883, or --join TOKEN"
        )
    if not relay.name:
        raise UsageError("this site has no name", "--name NAME, as [admission] sites has it above")
    if plan.trust.secure_sum or plan.trust.epsilon:
        raise UsageError("masks and budgets are the fleet's above, and a site has none of its own")
    return replace(plan, relay=relay, serve=serve), member


def agreed(plan: FleetConfig, agreement: FleetAgreement) -> FleetConfig:
    """With the fleet's method; where devices train, its run, too."""
    run = agreement.contract.run if agreement.has_rounds else plan.serve.run
    serve = replace(plan.serve, method=agreement.method, run=run, mode="sync")
    return replace(plan, serve=replace(serve, participation=1.0, max_staleness=0))
