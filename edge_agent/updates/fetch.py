"""The bundle that a channel names: announced by its descriptor and fetched in chunks, as a file
that nobody has looked into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from protofleet import wire
from protofleet.errors import WireError
from protofleet.mqtt.blobs.descriptor import BlobDescriptor
from protofleet.mqtt.blobs.receiver import BlobReceiver
from protofleet.mqtt.topics import TopicParts

# Raises where a bundle of this sha256 and size may not be fetched.
Listed = Callable[[str, int], None]


@dataclass(frozen=True)
class Fetched:
    """What came for a bundle of this name, whole and unopened: a file to be taken or removed."""

    name: str
    file: Path


class Fetch:
    """One bundle at a time: the one that is wanted, once it is announced."""

    def __init__(self, receiver: BlobReceiver, listed: Listed | None = None) -> None:
        self._receiver, self._listed = receiver, listed
        # By channel: a bundle that is tried is on another one than the fleet's.
        self._announced: dict[str, tuple[TopicParts, wire.Message]] = {}
        # The digest of what turned out to be of no use: it is not fetched again, else a bad bundle
        # on a channel would cost every device the traffic of fetching it for ever.
        self._bad: str | None = None
        self.wanted = ""
        self.under_way = False

    def want(self, name: str) -> Fetched | None:
        """Fetch the bundle of this name; empty: none any more."""
        if name == self.wanted and self.under_way:
            return None
        self.wanted = name
        return self._begin()

    def announced(self, parts: TopicParts, payload: bytes) -> Fetched | None:
        """What a channel says of its bundle; `WireError` if that is nothing."""
        (channel,) = parts.rest
        if not payload:
            before = self._announced.pop(channel, None)
            ended = before is not None and before[1].body.get("bundle") == self.wanted
            return self._begin() if ended or not self.under_way else None
        message = wire.decode(payload)
        if message.envelope.t != "slip" or message.body.get("of") != "bundle":
            raise WireError("bundle: a slip for a bundle is due")
        before = self._announced.get(channel)
        self._announced[channel] = (parts, message)
        if before is not None and before[1].body == message.body and self.under_way:
            return None  # retained, it comes again with each connection
        if self.under_way and message.body.get("bundle") != self.wanted:
            ours = before is not None and before[1].body.get("bundle") == self.wanted
            if not ours:
                return None  # another channel's
        return self._begin()

    def again(self) -> Fetched | None:
        """Another list came: what it did not have it may have now."""
        return None if self.under_way else self._begin()

    def whole(self, file: Path) -> Fetched | None:
        """Its last piece came."""
        if not self.under_way:
            file.unlink(missing_ok=True)
            return None
        self.under_way = False
        return Fetched(self.wanted, file)

    def refuse(self) -> None:
        """The bundle that came last is of no use: do not fetch it again."""
        offer = self._offer
        self._bad = None if offer is None else str(offer[1].body.get("digest"))
        self.under_way = False

    def allow(self) -> None:
        """What was of no use once may be worth another try: somebody asks for it anew."""
        self._bad = None

    @property
    def _offer(self) -> tuple[TopicParts, wire.Message] | None:
        """What is wanted, if a channel has it."""
        every = self._announced.values()
        return next((one for one in every if one[1].body.get("bundle") == self.wanted), None)

    def _begin(self) -> Fetched | None:
        if self.under_way:
            self._receiver.forget("bundle")
            self.under_way = False
        offer = self._offer if self.wanted else None
        if offer is None or offer[1].body.get("digest") == self._bad:
            return None
        parts, message = offer
        if self._listed is not None:
            descriptor = BlobDescriptor.from_body(message.body)
            self._listed(descriptor.digest, descriptor.size)
        self.under_way = True
        blob = self._receiver.announce(parts, message)
        return None if blob is None or blob.file is None else self.whole(blob.file)
