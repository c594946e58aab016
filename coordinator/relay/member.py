"""What a site that joined the fleet above is held to as its member: its certificate is renewed in
time, and a bundle is fetched only where the fleet's list has it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from coordinator.relay.uplink import Uplink
from protofleet.member.membership import FleetMember
from protofleet.member.renewal import Renewal
from protofleet.trust.listing import BundleList
from protofleet.trust.sequence import DAEMON
from protofleet.util.logs import Log


@dataclass(frozen=True)
class _Speaking:
    """As a renewal speaks."""

    uplink: Uplink

    def say(self, topic: str, payload: bytes) -> bool:
        """It is said again where it is lost."""
        self.uplink.say(topic, payload)
        return True


@dataclass(frozen=True)
class SiteMember:
    """Of one life."""

    renewal: Renewal
    listing: BundleList

    @staticmethod
    def of(member: FleetMember, uplink: Uplink, log: Log) -> SiteMember:
        """Who joined, by what lies in its folder."""
        said = _Speaking(uplink)
        renewal = Renewal(member, said, log, time.monotonic, lambda: datetime.now(UTC))
        return SiteMember(renewal, BundleList(member.listing(DAEMON)))
