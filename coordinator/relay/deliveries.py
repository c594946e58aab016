"""Messages of a site on their way up, one after the other, each until it has its receipt: pure but
for what it remembers.
"""

# Theory of operation
#
#   what happens                         what is done
#   a message is offered                 it is due at once, unless it was taken before
#   a newer one of the same name         takes its place; nobody needs the older
#   a receipt: accepted, duplicate,      noted (the caller writes it down): not said again
#     waiting (classes, an operator)
#   a receipt: anything else             again after LONGEST, on a new connection, or by a newer one
#   no receipt                           again after 5, 10, ... LONGEST seconds, and on a new
#                                        connection
#   the fleet above has another run or   nothing was taken
#     the site another extractor
#   a round's receipt: late, refused,    that is the end of it: what comes of the round is heard
#     conflict
#
# A site's sum is said before its counts: they are of devices that are in it.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from protofleet import wire
from protofleet.wire.codes import Reason, UploadStatus

ROUND, SUMS, COUNTS = "round", "sums", "counts"  # names, in the order in which they go
FIRST, LONGEST = 5.0, 300.0  # seconds to the next attempt, twice as long each time
SETTLED = frozenset({UploadStatus.ACCEPTED, UploadStatus.DUPLICATE, UploadStatus.WAITING})


@dataclass(frozen=True)
class Offer:
    """A message without a receipt; `digest` is of its body."""

    name: str
    payload: bytes
    digest: str
    refused: str = ""  # why, in words
    round: int = 0


@dataclass(frozen=True)
class TakenBook:
    """What the fleet above has, by the message's name: as it is written down."""

    run: str = ""
    lineage: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass
class SiteDeliveries:
    """What is on its way. Values are replaced and never changed: any thread may look."""

    book: TakenBook = field(default_factory=TakenBook)
    _waiting: dict[str, Offer] = field(default_factory=dict)
    _next_at: float = 0.0
    _wait: float = FIRST

    def under(self, run: str, lineage: str) -> None:
        """From now on for this run of the fleet above, of this extractor."""
        if (run, lineage) != (self.book.run, self.book.lineage):
            self.book, self._waiting = TakenBook(run, lineage), {}
            self.retry()

    def offer(self, name: str, payload: bytes, round: int = 0) -> None:
        """Bring this up, if it is not there."""
        digest = sha256(wire.unseal(payload)[1]).hexdigest()
        before = self._waiting.get(name)
        if self.book.digests.get(name) == digest:
            self.withdraw(name)
        elif before is None or before.digest != digest:
            fresh = Offer(name, payload, digest, round=round)
            self._waiting = {**self._waiting, name: fresh}
            self.retry()

    def withdraw(self, name: str) -> None:
        """It is of no use any more."""
        self._waiting = {n: offer for n, offer in self._waiting.items() if n != name}

    def retry(self) -> None:
        """What was not answered or not taken is worth another try, now."""
        self._next_at, self._wait = 0.0, FIRST

    @property
    def under_way(self) -> Offer | None:
        """The one that is said, or is said next."""
        return next((self._waiting[n] for n in (ROUND, SUMS, COUNTS) if n in self._waiting), None)

    @property
    def trouble(self) -> str:
        """Why something is not taken."""
        return next((one.refused for one in self._waiting.values() if one.refused), "")

    def due(self, now: float) -> Offer | None:
        """What is to be said now; it is not due again for a while."""
        offer = self.under_way
        if offer is None or now < self._next_at:
            return None
        self._next_at, self._wait = now + self._wait, min(LONGEST, 2 * self._wait)
        return offer

    def answered(self, body: Mapping[str, Any], blob: str, now: float) -> Offer | None:
        """A receipt: the message that was taken by it, for the caller to write down. `blob` is the
        digest under which a large one goes.
        """
        offer = self.under_way
        if offer is None or body.get("round") != offer.round:
            return None
        if body.get("digest") not in {offer.digest, blob} - {""}:
            return None
        if body.get("status") in SETTLED:
            self.withdraw(offer.name)
            digests = {**self.book.digests, offer.name: offer.digest}
            self.book = replace(self.book, digests=digests)
            self.retry()
            return offer
        if body.get("status") != UploadStatus.MISSING:
            words = " ".join(str(body.get("words", "")).split())[:300]
            refused = replace(offer, refused=words or "it does not say why")
            self._waiting = {**self._waiting, offer.name: refused}
            self._next_at = now + LONGEST
            # Counts are of a total that is no more, a round is over: the next is asked for anew.
            if offer.name == COUNTS or (
                offer.name == ROUND and body.get("reason") != Reason.UNKNOWN_ROUND
            ):
                self.withdraw(offer.name)
        return None
