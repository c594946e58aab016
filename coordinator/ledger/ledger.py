"""What a fleet's devices have said of their samples, and its exact total: a value, of which taking
in, taking away and replacing are one and the same operation.
"""

# Theory of operation
#
# A ledger is of one lineage: contributions through different extractors do not add up. A device has
# one contribution a source (its own samples, or one of the classes that it enrolled), and the
# newest takes the place of the one before:
#
#   replace    total − old + new
#   forget     total − old
#   a restart  the sum of what the journal has
#
# All three are of whole numbers (`protofleet.values.sums`), so they end in the same bits: a ledger
# without a device is the ledger that never had it, whatever came in which order.
#
# What a change costs does not depend on who else is there: two contributions are folded, one of
# them read again from the journal, as the sums of a contribution are a hundred times as large as
# its message and a thousand of them would not fit into memory. What is remembered of each is its
# digest, and how many samples of which class, on shelves (`coordinator.shelves`): so a ledger with
# one changed shares with the one before all that did not change, and nothing that is asked for each
# contribution may look at everybody's.
#
# Class ids. Devices name classes by words, sums have rows by number. In here a class has the least
# number that was free when it came, so that the total need not be re-keyed when one comes; these
# numbers tell of the order of arrivals, and never leave. What leaves is `canonical`: the classes
# that the fleet agreed on, in their order, then all others that are there, by name. Only the means
# are re-keyed for it, a row a class; the scatter has one key and knows no classes.
#
# Where sums are masked a group's total is one entry, under the name of no device: it takes the
# place of the group's earlier one, and can be taken away whole and no other way.
#
# A site's coordinator (`protofleet.exchange.relayed`) says its devices' sum as one entry under the
# site's name, with its devices' names; rows of it are in their buckets already.
#
# A class that nobody has any more has no number, and leaves no trace either.
#
# Where the fleet has buckets (`protofleet.statistics.voices`) a row is of a class and a bucket, and
# all of the above holds as it stands. Which buckets are heard is asked when a version is made.
#
# What is not in here: who may contribute (`admission`), what is shown to whom (`catalogue`), when
# it is published and counted against (`keeper`).

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from coordinator.shelves import Shelves
from protofleet.errors import FusionError
from protofleet.exchange.contributed import Contributed
from protofleet.exchange.gathered import GROUP, GroupTotal
from protofleet.exchange.relayed import RelayedTotal
from protofleet.statistics import contribution, voices
from protofleet.statistics.contribution import MEANS, Grid
from protofleet.values import sums
from protofleet.values.sums import Partial, Sum

Place = tuple[str, str]  # agent and source
Summand = Contributed | GroupTotal | RelayedTotal
GRID = Grid()  # of every lineage: extractors bring their features to where it holds them


@dataclass(frozen=True)
class Entry:
    """What is remembered of a contribution beside the sums that it is in."""

    digest: str
    classes: Mapping[str, int]  # samples
    members: tuple[str, ...] = ()  # whose total it is: a masked group's, a site's
    holders: Mapping[str, int] = field(default_factory=dict)  # of these devices, by class

    @staticmethod
    def of(contributed: Summand) -> Entry:
        """As it came."""
        if isinstance(contributed, RelayedTotal):
            about = contributed.claim
            holders = dict(zip(about.classes, about.holders, strict=True))
            return Entry(contributed.digest, contributed.samples, about.members, holders)
        if isinstance(contributed, GroupTotal):
            claim = contributed.claim
            return Entry(contributed.digest, contributed.samples, claim.members)
        counts = contributed.contribution.means.counts
        assert counts is not None  # a contribution has them
        names = contributed.claim.classes
        return Entry(contributed.digest, dict(zip(names, counts.tolist(), strict=True)))

    @property
    def samples(self) -> int:
        """How many stand behind it."""
        return sum(self.classes.values())


@dataclass(frozen=True, eq=False)
class Ledger:
    """Contributions of one lineage and their total; `ids` are the total's own keys of classes."""

    lineage: str = ""
    entries: Shelves[Place, Entry] = field(default_factory=Shelves)
    ids: Mapping[str, int] = field(default_factory=dict)
    total: Partial = field(default_factory=dict)
    buckets: int = 1
    sources: Shelves[str, tuple[str, ...]] = field(default_factory=Shelves)  # by agent
    many: tuple[Place, ...] = ()  # entries that are of members

    def holding(self, entries: Mapping[Place, Entry]) -> Ledger:
        """With these entries, whatever they add up to."""
        sources: dict[str, tuple[str, ...]] = {}
        for agent, source in entries:
            sources[agent] = (*sources.get(agent, ()), source)
        many = tuple(place for place, entry in entries.items() if entry.members)
        shelves = Shelves(entries), Shelves(sources)
        return replace(self, entries=shelves[0], sources=shelves[1], many=many)

    def plus(self, agent: str, new: Summand, old: Summand | None = None) -> Ledger:
        """With this contribution, which replaces `old`: what the device said before."""
        place = agent, _source(new)
        rest = self if old is None else self.without(agent, old)
        if place in rest.entries:
            raise FusionError("a contribution is there already: it is to be replaced")
        entry = Entry.of(new)
        ids = _with_ids(rest.ids, tuple(entry.classes))
        total = sums.merge(rest.total, self._folded(agent, new, ids))
        return replace(
            rest,
            entries=rest.entries.plus({place: entry}),
            ids=ids,
            total=total,
            sources=rest.sources.plus({agent: (*rest.sources.get(agent, ()), place[1])}),
            many=(*rest.many, place) if entry.members else rest.many,
        )

    def without(self, agent: str, old: Summand) -> Ledger:
        """As if it had never come."""
        place = agent, _source(old)
        entry = self.entries.get(place)
        if entry is None or entry.digest != old.digest:
            raise FusionError("what is to be taken away was never added")
        total = sums.subtract(self.total, self._folded(agent, old, self.ids))
        left = tuple(source for source in self.sources[agent] if source != place[1])
        rows = {key // self.buckets for key in _keys(total)}
        ids = {name: number for name, number in self.ids.items() if number in rows}
        return replace(
            self,
            entries=self.entries.minus([place]),
            ids=ids,
            total=total if rows else {},
            sources=self.sources.plus({agent: left}) if left else self.sources.minus([agent]),
            many=tuple(other for other in self.many if other != place),
        )

    def canonical(self, first: Sequence[str] = ()) -> tuple[tuple[str, ...], Partial]:
        """Class names in an order that tells nothing of arrivals, and the total by their places.
        All of `first` are among them, whether anybody has them or not.
        """
        names = (*first, *sorted(self.ids.keys() - set(first)))
        means = self.total.get(MEANS)
        if not isinstance(means, Sum):
            return names, self.total
        by_name = {name: place for place, name in enumerate(names)}
        place = {number: by_name[name] for name, number in self.ids.items()}
        rows = (divmod(key, self.buckets) for key in _keys(self.total))
        keys = [place[number] * self.buckets + bucket for number, bucket in rows]
        return names, {**self.total, MEANS: means.keyed(keys)}

    def heard(self) -> Partial:
        """The total without the buckets that most others contradict."""
        return voices.heard(self.total, self.buckets, voices.doubted(self.total, self.buckets))

    @property
    def most_agents(self) -> int:
        """No more than so many contributed: what can be said without looking at everybody."""
        return len(self.sources) + sum(len(self.entries[place].members) for place in self.many)

    @property
    def agents(self) -> list[str]:
        """Who contributed, alone or in a group."""
        everyone: set[str] = set()
        for (agent, _), entry in self.entries.items():
            everyone |= {*entry.members} or {agent}
        return sorted(everyone)

    @property
    def samples(self) -> int:
        """Of all."""
        return sum(entry.samples for entry in self.entries.values())

    @property
    def classes(self) -> dict[str, int]:
        """Samples by class."""
        counts: dict[str, int] = {}
        for entry in self.entries.values():
            for name, samples in entry.classes.items():
                counts[name] = counts.get(name, 0) + samples
        return counts

    @property
    def digests(self) -> dict[Place, str]:
        """Of all contributions."""
        return {place: entry.digest for place, entry in self.entries.items()}

    @property
    def devices(self) -> dict[str, int]:
        """How many have a class, by its name."""
        agents: dict[str, set[str]] = {}
        numbers: dict[str, int] = {}
        for (agent, _), entry in self.entries.items():
            for name in entry.classes:
                if name in entry.holders:
                    numbers[name] = numbers.get(name, 0) + entry.holders[name]
                else:
                    agents.setdefault(name, set()).add(agent)
        for name, some in agents.items():
            numbers[name] = numbers.get(name, 0) + len(some)
        return numbers

    def site_of(self, agent: str) -> str:
        """In whose sum a device is; nobody's where it contributed here."""
        every = ((who, self.entries[who, source]) for who, source in self.many if who != GROUP)
        return next((who for who, entry in every if agent in entry.members), "")

    def of(self, agent: str) -> dict[str, Entry]:
        """What one device contributed, by source."""
        return {source: self.entries[agent, source] for source in self.sources.get(agent, ())}

    def brought_by(self, name: str) -> list[Place]:
        """Which contributions a class is in."""
        return [place for place, entry in self.entries.items() if name in entry.classes]

    def _folded(self, agent: str, own: Summand, ids: Mapping[str, int]) -> Partial:
        """What it adds to a total with these keys."""
        if isinstance(own, RelayedTotal):
            rows = own.partial[MEANS]
            assert isinstance(rows, Sum)
            if own.claim.buckets != self.buckets:
                raise FusionError(f"{own.claim.buckets} buckets, here there are {self.buckets}")
            pairs = (divmod(key, self.buckets) for key in rows.keys.tolist())
            moved = [ids[own.claim.classes[at]] * self.buckets + bucket for at, bucket in pairs]
            return {**own.partial, MEANS: rows.keyed(moved)}
        if isinstance(own, GroupTotal):
            partial = own.partial
        else:
            partial = contribution.fold(own.contribution, GRID)
        means = partial[MEANS]
        assert isinstance(means, Sum)
        # Its own ids are places among the names that it came with.
        keys = [ids[own.claim.classes[place]] for place in means.keys.tolist()]
        return voices.placed({**partial, MEANS: means.keyed(keys)}, agent, self.buckets)


def _source(of: Summand) -> str:
    return of.claim.source if isinstance(of, Contributed) else ""


def _with_ids(ids: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    """Each name with a number, new ones with the least that are free."""
    numbers, used = dict(ids), set(ids.values())
    free = (number for number in count() if number not in used)
    for name in names:
        if name not in numbers:
            numbers[name] = next(free)
    return numbers


def _keys(total: Partial) -> list[int]:
    means = total.get(MEANS)
    return means.keys[np.asarray(means.weights) > 0].tolist() if isinstance(means, Sum) else []
