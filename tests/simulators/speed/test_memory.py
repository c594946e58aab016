"""The bench of memory looks at devices, uploads and rounds, each with a coordinator of its own."""

import pytest

from protofleet.mqtt.broker import mosquitto
from simulators.speed.memory import bench_memory

pytestmark = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")


def test_memory_is_told_for_devices_uploads_and_rounds(tmp_path):
    steps: list[str] = []
    rows = bench_memory(20, 30, 4, 3, tmp_path, steps.append)
    assert steps == ["devices", "uploads", "rounds"]
    assert [row.when for row in rows] == [
        "idle",
        "20 devices registered",
        "a round of large uploads is open",
        "at most, while 30 pour in",
        "after 3 rounds of 3 devices",
        "after 4 rounds of 3 devices",
    ]
    by_name = {row.when: row for row in rows}
    registered, idle = by_name["20 devices registered"], by_name["idle"]
    assert registered.note == f"{1024 * (registered.rss_mb - idle.rss_mb) / 20:.1f} KB a device"
    # The high-water mark of a process is not below what it held before.
    flood = by_name["at most, while 30 pour in"]
    assert flood.rss_mb >= by_name["a round of large uploads is open"].rss_mb
