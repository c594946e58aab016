"""The bench of ingestion runs through and loses nothing; how fast is not asked."""

import os
import selectors
import socket

import numpy as np
import pytest

from protofleet import wire
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.topics import Topics
from simulators.speed import ingest
from simulators.speed.ingest import Ingested, bench_ingest, bench_uploads, middle


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_ingest_loses_nothing(tmp_path):
    free = os.sched_getaffinity(0)
    runs = bench_ingest(60, 2, tmp_path, lambda words: None)
    assert [run.name for run in runs] == ["bare paho subscriber", "coordinator"] * 2
    for bare, ours in (runs[:2], runs[2:]):
        assert (bare.uploads, ours.uploads, bare.lost, ours.lost) == (60, 60, 0, 0)
        assert ours.p99_ms >= ours.p50_ms > 0
        assert (bare.p50_ms, bare.p99_ms) == (None, None)  # nobody answers it
    assert os.sched_getaffinity(0) == free


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_two_ingesters_lose_nothing_either(tmp_path):
    _, ours = bench_ingest(60, 1, tmp_path, lambda words: None, counts=[2])
    assert (ours.name, ours.uploads, ours.lost) == ("with 2 ingesters", 60, 0)
    assert ours.own_us is not None


def test_the_middle_of_several_runs_is_their_median_and_losses_add_up():
    runs = [
        Ingested("a", 9, lost, rate, 1.0, 2.0, 3.0, 4.0)
        for lost, rate in ((1, 5.0), (0, 70.0), (2, 6.0))
    ]
    assert middle(runs) == [Ingested("a", 9, 3, 6.0, 1.0, 2.0, 3.0, 4.0)]


def test_every_upload_is_another_agent_s_and_no_two_are_alike():
    uploads = bench_uploads(5, "0" * 64)
    decoded = [wire.decode(message) for _, message in uploads]
    assert [message.envelope.agent for message in decoded] == [agent for agent, _ in uploads]
    vectors = [message.body["prototypes"].vectors for message in decoded]
    assert all(v.shape == (ingest.CLASSES, ingest.DIM) for v in vectors)
    assert not any(np.array_equal(vectors[0], other) for other in vectors[1:])


def test_a_publisher_has_no_more_on_its_way_than_its_window():
    ours, broker = socket.socketpair()
    publisher = ingest._Publisher(ours, [(f"a{n}", b"body") for n in range(30)], Topics("bench"))
    ours.setblocking(False)
    publisher.work(selectors.EVENT_WRITE)
    assert list(publisher.sent_at) == [f"a{n}" for n in range(ingest.WINDOW)]
    broker.sendall(b"\x40\x02\0\1" * 3)  # three acknowledgements
    publisher.work(selectors.EVENT_READ | selectors.EVENT_WRITE)
    assert len(publisher.sent_at) == ingest.WINDOW + 3
    broker.sendall(b"\x40\x02\0\1" * 27)
    publisher.work(selectors.EVENT_READ)
    broker.sendall(b"\x40\x02\0")  # one that has not come whole is none yet
    publisher.work(selectors.EVENT_READ)
    assert len(publisher.sent_at) == 30
    assert publisher.done
    ours.close()
    broker.close()
