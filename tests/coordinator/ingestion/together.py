"""Ingesters without processes or a broker: what they say goes straight to a core, and back."""

from contextlib import nullcontext
from multiprocessing.connection import Pipe

from coordinator.ingestion.ingester import Ingester
from coordinator.ingestion.words import (
    Begun,
    Grant,
    HeardBatch,
    IngestJob,
    RowBatch,
    Taken,
    TotalsWanted,
)
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.events import Arrival, Token
from protofleet.settings.fields import to_plain


class Shelf:
    """A link that only notes what is acknowledged."""

    def __init__(self):
        self.acked, self.connected = [], True

    def ack(self, *arrivals):
        self.acked += arrivals

    def wake(self):
        pass

    together = nullcontext


def job_of(core, folder, members=None, number=1):
    expected = core.terms.expected
    return IngestJob(
        number,
        Address("mqtt", "127.0.0.1", 1),
        expected.fleet,
        expected.contract,
        expected.recipe.name,
        to_plain(core.terms.hyper),
        expected.limits,
        folder,
        members,
    )


class Desk:
    """One ingester and what a crew does for it."""

    def __init__(self, core, folder, number=1, members=None):
        self.core, self.number = core, number
        self.ours, theirs = Pipe()
        self.link = Shelf()
        self.ingester = Ingester(job_of(core, folder, members, number), theirs, self.link)
        for _ in range(2):
            self.order(Grant(core.journal.segments.reserve()))

    def order(self, order):
        self.ingester._orders.put(order)
        assert self.ingester._follow()

    def said(self):
        words = []
        while self.ours.poll():
            words.append(self.ours.recv())
        return words

    def batch(self, uploads=()):
        """What it makes of these."""
        topics, number = self.core.topics, len(self.link.acked)
        arrivals = [
            Arrival(topics.upload(t.agent, int(t.rest[0])), payload, 1, False, Token(1, number + i))
            for i, (t, payload) in enumerate(uploads)
        ]
        self.ingester._take(arrivals)
        words = self.said()
        assert all(isinstance(word, RowBatch | Begun) for word in words)
        return HeardBatch(self.number, 1, words[-1])


class Desks:
    """All of them, as a core knows them."""

    def __init__(self, core, folder, count=2):
        self.desks = {n: Desk(core, folder, n) for n in range(1, count + 1)}
        self.core, core.crew = core, self
        self.back = []

    def tell(self):
        for desk in self.desks.values():
            desk.order(self.core.standing)

    def taken(self, heard, back):
        self.back.append(list(back))
        if heard.ingester in self.desks:
            self.desks[heard.ingester].order(Taken(heard.batch.number, tuple(back)))

    def totals(self, serial):
        for desk in self.desks.values():
            desk.order(TotalsWanted(serial))
            yield from desk.said()[-1].groups
