"""What comes of a ledger and of counts, as it is published: the same wherever it is made, from
memory, after a restart or from the journal alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import sha256

from coordinator.journal.tables import LedgerTables
from coordinator.ledger.display import Learnt
from coordinator.ledger.ledger import Ledger, Summand
from coordinator.uploads.fuse import as_published
from protofleet import wire
from protofleet.contract import Wire
from protofleet.errors import FusionError, WireError
from protofleet.exchange import contributed, gathered, learned, relayed
from protofleet.exchange.contributed import Claim, Contributed, CountReport
from protofleet.exchange.gathered import GROUP, GroupTotal
from protofleet.exchange.published import About
from protofleet.exchange.relayed import RelayedCounts
from protofleet.exchange.state import GlobalState
from protofleet.statistics import agreement, voices
from protofleet.statistics.counts import Counts
from protofleet.statistics.counts import total as counts_of
from protofleet.statistics.knowledge import Knowledge
from protofleet.values import sums
from protofleet.values.prototypes import Head, Prototypes
from protofleet.wire import Envelope


@dataclass(frozen=True)
class VersionTerms:
    """What a version is made by, beside its sums and counts."""

    wire: Wire
    precision: Mapping[str, Wire]  # of single parts
    alarms: float  # share of usual things that may be called unknown
    buckets: int = 1  # of devices


@dataclass(frozen=True, eq=False)
class CountTotal:
    """What devices counted, by their names: against which total, and the digest of each."""

    total: str = ""
    counts: Mapping[str, tuple[str, Counts]] = field(default_factory=dict)
    members: tuple[str, ...] = ()  # who counted, where nobody sees who counted what
    sites: Mapping[str, RelayedCounts] = field(default_factory=dict)  # of their devices

    @property
    def devices(self) -> frozenset[str]:
        """Who counted."""
        far = (name for site in self.sites.values() for name in site.claim.members)
        return frozenset((*(self.members or self.counts), *far))

    @property
    def digests(self) -> dict[str, str]:
        """Of what is here, by who said it."""
        own = {agent: digest for agent, (digest, _) in self.counts.items()}
        return own | {site: report.digest for site, report in self.sites.items()}

    def with_group(self, total: str, group: GroupTotal) -> CountTotal:
        """What a group counted together against this total."""
        counted = counts_of(group.partial)
        if counted is None:
            raise FusionError("nobody of the group counted")
        sites = self.sites if self.total == total else {}
        return CountTotal(total, {GROUP: (group.digest, counted)}, group.claim.members, sites)

    def but(self, doubted: Collection[str]) -> Counts | None:
        """The sum of all others' than these; None where nobody counted. Of a site a whole bucket is
        doubted, or nobody in it.
        """
        every = [counts for agent, (_, counts) in self.counts.items() if agent not in doubted]
        for site in self.sites.values():
            shares = site.shares.values()
            every += [counts for names, counts in shares if names[0] not in doubted]
        return reduce(Counts.plus, every) if every else None

    def by_bucket(self, buckets: int) -> dict[int, Counts]:
        """What the devices of each counted together."""
        pairs = [
            (voices.bucket_of(agent, buckets), counts) for agent, (_, counts) in self.counts.items()
        ]
        for site in self.sites.values():
            pairs += [(bucket, counts) for bucket, (_, counts) in site.shares.items()]
        together: dict[int, Counts] = {}
        for bucket, counts in pairs:
            together[bucket] = together[bucket].plus(counts) if bucket in together else counts
        return together

    def doubted(self, buckets: int, unheard: Collection[int]) -> tuple[str, ...]:
        """Whose counts are not used: those of buckets that are not heard, and of those whose counts
        are far from what most say.
        """
        if buckets == 1:
            return ()
        heard = {b: own for b, own in self.by_bucket(buckets).items() if b not in unheard}
        bad = {*unheard, *agreement.doubts(heard)}
        far = (name for site in self.sites.values() for name in site.claim.members)
        everybody = sorted((*self.counts, *far))
        return tuple(a for a in everybody if voices.bucket_of(a, buckets) in bad)

    def plus(self, agent: str, report: CountReport | RelayedCounts) -> CountTotal:
        """With this; counts of two totals are never added."""
        before = self if self.total == report.claim.total else CountTotal(report.claim.total)
        if isinstance(report, RelayedCounts):
            return replace(before, sites={**before.sites, agent: report})
        return replace(before, counts={**before.counts, agent: (report.digest, report.counts)})


@dataclass(frozen=True, eq=False)
class LedgerVersion:
    """What was made, and of how much."""

    lineage: str = ""
    names: tuple[str, ...] = ()  # of class ids
    total: str = ""  # the hash of the sums
    state: GlobalState = field(default_factory=GlobalState)
    knowledge: Knowledge | None = None
    devices: int = 0
    samples: int = 0
    doubted: tuple[str, ...] = ()  # devices that are not heard
    uncounted: tuple[str, ...] = ()  # devices whose counts are not used

    @property
    def misjudging(self) -> tuple[str, ...]:
        """Devices that are heard, but for their counts."""
        return tuple(agent for agent in self.uncounted if agent not in self.doubted)

    def learnt(self, share: float) -> Learnt | None:
        """What devices classify with, of all classes; `share` of them are to count against it."""
        if self.knowledge is None:
            return None
        head, means = self.state.shared[learned.HEAD], self.state.shared[learned.MEANS]
        assert isinstance(head, Head)
        assert isinstance(means, Prototypes)
        sure = self.knowledge.calibration
        about = About(self.lineage, self.names, calibration=sure, total=self.total, asked=share)
        return Learnt(about, head, means)

    def to_count_against(self, envelope: Envelope) -> bytes:
        """The message of its total."""
        claim = Claim(self.lineage, self.names, total=self.total)
        return contributed.write_total(claim, self.state.shared, envelope)


@dataclass(frozen=True)
class OfferedTotal:
    """What devices are to count against: its hash, the samples in it, and which share of them."""

    lineage: str = ""
    total: str = ""
    samples: int = 0
    share: float = 0.0

    def is_for(self, agent: str) -> bool:
        """Whether it is this device's turn: everybody knows, and nobody can choose."""
        drawn = int(sha256(f"{self.total}:{agent}".encode()).hexdigest()[:16], 16) / 2**64
        return drawn < self.share


def version(
    ledger: Ledger, first: Sequence[str], tally: CountTotal, terms: VersionTerms
) -> LedgerVersion:
    """Of these contributions and counts; `first` are the classes that the fleet agreed on."""
    names, total = ledger.canonical(first)
    digest = sums.digest(total)
    buckets = ledger.buckets
    unheard = voices.doubted(total, buckets)
    doubted = tuple(a for a in ledger.agents if voices.bucket_of(a, buckets) in unheard)
    uncounted = tally.doubted(buckets, unheard)
    state, whole = learned.state(
        total,
        tally.but(uncounted),
        heard=voices.heard(total, buckets, unheard),
        current=tally.total == digest,
        false_alarms=terms.alarms,
    )
    published = as_published(state, terms.wire, terms.precision)
    about = len(ledger.agents), ledger.samples, doubted, uncounted
    return LedgerVersion(ledger.lineage, names, digest, published, whole, *about)


def read_contribution(tables: LedgerTables, lineage: str, agent: str, source: str) -> Contributed:
    """As it came."""
    body = tables.contribution(lineage, agent, source)
    message = None if body is None else contributed.read(body)
    if not isinstance(message, Contributed):
        raise FusionError(f"the journal has no contribution of {agent}")
    return message


def read_summand(tables: LedgerTables, lineage: str, agent: str, source: str) -> Summand:
    """The same, or a group's total, or a site's."""
    body = tables.contribution(lineage, agent, source)
    if body is not None and agent == GROUP:
        return gathered.read(body)
    if body is not None and is_relayed(body):
        message = relayed.read(body)
        if not isinstance(message, RelayedCounts):
            return message
    return read_contribution(tables, lineage, agent, source)


def is_relayed(body: bytes) -> bool:
    """Whether it is a site's word, of its devices."""
    return wire.unseal(body)[0].method in relayed.METHODS


def read_ledger(
    tables: LedgerTables, empty: Ledger, but: Iterable[str] = (), like: Ledger | None = None
) -> tuple[Ledger, list[str]]:
    """What the journal has of a ledger that is `empty` yet, without these devices, and whose bytes
    are damaged. Nothing is added up again that is in `like` already, as long as nothing else is in
    it.
    """
    absent, lineage = frozenset(but), empty.lineage
    records = [record for record in tables.contributions(lineage) if record.agent not in absent]
    digests = {(record.agent, record.source): record.digest for record in records}
    ledger, damaged = empty, list[str]()
    same = like is not None and (like.lineage, like.buckets) == (lineage, empty.buckets)
    if like is not None and same and like.digests.items() <= digests.items():
        ledger = like
    for agent, source in sorted(digests.keys() - ledger.digests.keys()):
        try:
            ledger = ledger.plus(agent, read_summand(tables, lineage, agent, source))
        except (FusionError, WireError):
            damaged.append(agent)
    return ledger, damaged


def read_tally(tables: LedgerTables, lineage: str) -> CountTotal:
    """What devices counted, from the journal."""
    tally = CountTotal()
    for record in tables.counts(lineage):
        if record.agent == GROUP:  # then there are sites' beside it, and no other
            tally = tally.with_group(record.total, gathered.read(record.body))
            continue
        reading = relayed.read if is_relayed(record.body) else contributed.read
        report = reading(record.body)
        if isinstance(report, CountReport | RelayedCounts):
            tally = tally.plus(record.agent, report)
    return tally
