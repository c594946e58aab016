"""What one device may cost: for each kind of message a bucket of tokens that fills with time.

A message that finds its bucket empty is dropped before it is decoded, and counted. Only what its
device says again by itself is dropped: the newest birth is not, it waits (`coordinator.core`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

REMEMBERED = 20_000  # buckets; a full one need not be remembered


@dataclass(frozen=True)
class Rate:
    """Tokens that a bucket holds, and how many come back a second."""

    burst: float
    refill: float


# An honest device is far below each: it measures once a round, is born once a connection, and asks
# for chunks after 3, 6, 12 ... seconds of silence.
RATES = {
    "birth": Rate(30, 1),
    "report": Rate(200, 20),
    "reported": Rate(60, 2),
    "join": Rate(60, 10),
    "offer": Rate(20, 0.2),
    "request": Rate(60, 4),
    "refusal": Rate(60, 1),  # uploads that are answered at once: refused, or here already
    "announce": Rate(60, 1),  # large uploads, until they are there
    "chunk": Rate(20_000, 2_000),
    "bytes": Rate(1 << 28, 1 << 24),  # of chunks that are asked for
}


@dataclass
class Allowance:
    """Buckets by kind and device, and what was dropped by kind."""

    dropped: dict[str, int] = field(default_factory=dict)
    _buckets: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def spend(self, kind: str, agent: str, now: float, cost: float = 1.0) -> bool:
        """Whether this device may have that much more of it just now; else it is counted."""
        rate = RATES[kind]
        tokens, since = self._buckets.get((kind, agent), (rate.burst, now))
        tokens = min(rate.burst, tokens + (now - since) * rate.refill)
        # What is larger than any bucket passes when its bucket is full, and empties it.
        enough = tokens >= min(cost, rate.burst)
        self._buckets[kind, agent] = (tokens - cost if enough else tokens), now
        if not enough:
            self.count(kind)
        if len(self._buckets) > REMEMBERED:
            self._forget(now)
        return enough

    def may(self, kind: str, agent: str, now: float) -> bool:
        """As `spend`, but one that may not is nothing new."""
        tokens, since = self._buckets.get((kind, agent), (1.0, now))
        ready = tokens + (now - since) * RATES[kind].refill >= 1
        return ready and self.spend(kind, agent, now)

    def is_spent(self, kind: str, agent: str, now: float) -> bool:
        """Whether a device has nothing left of what is spent afterwards; then that is counted."""
        bucket = self._buckets.get((kind, agent))
        if bucket is None or bucket[0] + (now - bucket[1]) * RATES[kind].refill >= 1:
            return False
        self.count(kind)
        return True

    def count(self, kind: str) -> None:
        """One more was dropped."""
        self.dropped[kind] = self.dropped.get(kind, 0) + 1

    def _forget(self, now: float) -> None:
        """Drop buckets that are full again, and the older half where that is not enough."""
        short = {
            key: (tokens, since)
            for key, (tokens, since) in self._buckets.items()
            if tokens + (now - since) * RATES[key[0]].refill < RATES[key[0]].burst
        }
        newest = sorted(short.items(), key=lambda item: item[1][1])[-REMEMBERED // 2 :]
        self._buckets = dict(newest)
