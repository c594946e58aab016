"""The benches of the live fleet run through and count what they should; how fast is not asked."""

import os

import pytest

from protofleet.mqtt.broker import mosquitto
from simulators.speed.ingest import Ingested, bench_ingest, middle
from simulators.speed.memory import bench_memory
from simulators.speed.overhead import bench_overhead

pytestmark = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")


def test_ingest_loses_nothing(tmp_path):
    free = os.sched_getaffinity(0)
    found = bench_ingest(60, 2, tmp_path, lambda words: None)
    assert [each.name for each in found] == ["bare paho subscriber", "coordinator"] * 2
    for bare, ours in (found[:2], found[2:]):
        assert (bare.uploads, ours.uploads, bare.lost, ours.lost) == (60, 60, 0, 0)
        assert ours.p99_ms >= ours.p50_ms > 0
    assert os.sched_getaffinity(0) == free


def test_the_middle_of_several_runs_is_their_median_and_losses_add_up():
    runs = [
        Ingested("a", 9, lost, rate, 1.0, 2.0, 3.0, 4.0)
        for lost, rate in ((1, 5.0), (0, 70.0), (2, 6.0))
    ]
    assert middle(runs) == [Ingested("a", 9, 3, 6.0, 1.0, 2.0, 3.0, 4.0)]


def test_memory_is_told_for_devices_uploads_and_rounds(tmp_path):
    found = bench_memory(20, 30, 4, 3, tmp_path, lambda words: None)
    assert [row.when for row in found] == [
        "idle",
        "20 devices registered",
        "a round of large uploads is open",
        "at most, while 30 pour in",
        "after 3 rounds of 3 devices",
        "after 4 rounds of 3 devices",
    ]
    assert all(row.rss_mb > 10 for row in found)


def test_overhead_counts_rounds_bytes_and_processes(tmp_path):
    found = bench_overhead(3, 2, tmp_path)
    assert found.round_ms > 0
    assert found.training_process_mb > found.idle_mb > 10
    assert found.carried_bytes > found.payload_bytes > 0
