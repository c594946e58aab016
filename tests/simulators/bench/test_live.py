"""The benches of the live fleet run through and count what they should; how fast is not asked."""

import pytest

from protofleet.mqtt import mosquitto
from simulators.bench.ingest import bench_ingest
from simulators.bench.memory import bench_memory
from simulators.bench.overhead import bench_overhead

pytestmark = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")


def test_ingest_loses_nothing(tmp_path):
    bare, ours = bench_ingest(60, tmp_path, lambda words: None)
    assert (bare.uploads, ours.uploads, bare.lost, ours.lost) == (60, 60, 0, 0)
    assert ours.p99_ms >= ours.p50_ms > 0


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
