"""One message after the other, each until it has its receipt, and none of them twice."""

import io
from types import SimpleNamespace

import numpy as np
import pytest

from edge_agent.daemon.deliver import COUNTS, OWN, Deliveries
from edge_agent.daemon.transfers import Transfers
from protofleet import wire
from protofleet.exchange import contributed
from protofleet.exchange.contributed import Claim
from protofleet.mqtt.topics import Topics
from protofleet.statistics.contribution import Grid, contribution
from protofleet.util.logs import Log
from tests.edge_agent.fakes import config

ENVELOPE = wire.Envelope("enrol", "f", agent="a", method="contribute")


class Stage:
    def __init__(self, folder):
        self.folder, self.now, self.published = folder, 0.0, []
        self.topics, self.words = Topics("f"), io.StringIO()
        outbound = SimpleNamespace(
            topics=self.topics,
            say=lambda topic, payload: self.published.append(payload) or True,
            publish=lambda *words, **how: None,
        )
        self.uploads = Transfers(
            self.topics, "a", folder / "spool", outbound, lambda: self.now, 1 << 20
        )
        log = Log(self.words)
        self.it = Deliveries(config(folder), outbound, self.uploads, log, lambda: self.now)
        self.it.under(folder / "lineage", "r")

    def sent(self):
        self.it.look()
        payloads, self.published[:] = list(self.published), []
        return payloads

    def answer(self, payload, status="accepted", digest=None):
        body = {"digest": wire.decode(payload).digest if digest is None else digest}
        body |= {"round": 0, "status": status, "words": "because"}
        envelope = wire.Envelope("receipt", "f", agent="a", round=0)
        self.it.receipt(wire.decode(wire.encode(envelope, body)))


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def message(seed, source=""):
    x = np.random.default_rng(seed).normal(size=(6, 4))
    own = contribution(x, np.zeros(6), Grid())
    claim = Claim("extractor:x", ("a",), source)
    return contributed.write_contribution(claim, own, ENVELOPE)


def test_the_devices_own_goes_first_and_counts_last(stage):
    own, green, counts = message(1), message(2, "green"), message(3)
    stage.it.offer(COUNTS, counts, mark="total")
    stage.it.offer("class/green", green)
    stage.it.offer(OWN, own)
    for payload in (own, green, counts):
        assert stage.sent() == [payload]
        assert stage.sent() == []  # it waits for the receipt
        stage.answer(payload)
    assert stage.sent() == []
    assert stage.it.taken(COUNTS) == "total"


def test_without_a_receipt_it_is_said_again_later_and_later(stage):
    stage.it.offer(OWN, message(1))
    times = []
    for _ in range(100):
        if stage.sent():
            times.append(stage.now)
        stage.now += 10.0
    assert np.diff(times).tolist() == [10, 20, 40, 80, 160, 320]
    stage.it.connected()
    assert stage.sent()


def test_what_was_accepted_is_not_said_again_unless_the_coordinator_is_another(stage, tmp_path):
    own = message(1)
    stage.it.offer(OWN, own)
    stage.sent()
    stage.answer(own)
    stage.it.connected()
    stage.it.offer(OWN, own)
    later = Stage(tmp_path)
    later.it.offer(OWN, own)
    assert stage.sent() == later.sent() == []
    later.it.offer(OWN, message(2))
    assert later.sent() == [message(2)]
    later.it.under(tmp_path / "lineage", "another run")
    later.it.offer(OWN, own)
    assert later.sent() == [own]


def test_what_is_refused_waits_for_another_connection(stage):
    own = message(1)
    stage.it.offer(OWN, own)
    stage.sent()
    stage.answer(own, "refused")
    stage.it.offer(OWN, own)
    assert stage.sent() == []
    assert "does not take it: own: because" in stage.words.getvalue()
    stage.it.connected()
    assert stage.sent() == [own]


def test_a_receipt_for_other_bytes_or_without_a_digest_is_no_answer(stage):
    own = message(1)
    stage.it.offer(OWN, own)
    stage.sent()
    stage.answer(own, "refused", digest="")
    stage.answer(message(2))
    stage.now += 11
    assert stage.sent() == [own]


def test_a_large_one_goes_as_a_slip_and_its_chunks_as_they_are_missed(stage):
    stage.uploads.packet = 1400
    own = message(1)
    stage.uploads.packet = 1300
    large = contributed.write_contribution(
        Claim("extractor:x", ("a",)),
        contribution(np.random.default_rng(1).normal(size=(30, 64)), np.zeros(30), Grid()),
        ENVELOPE,
    )
    stage.it.offer(OWN, large)
    (slip,) = stage.sent()
    envelope, _ = wire.unseal(slip)
    assert envelope.t == "slip"
    digest = wire.decode(slip).body["digest"]
    stage.answer(own, "accepted", digest=digest)
    assert stage.it.taken(OWN) == wire.decode(large).digest
