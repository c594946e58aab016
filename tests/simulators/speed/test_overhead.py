"""The bench of a round's overhead counts rounds, bytes and processes of a real fleet."""

import pytest

from protofleet.mqtt.broker import mosquitto
from simulators.speed import overhead
from simulators.speed.overhead import bench_overhead


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_overhead_counts_rounds_bytes_and_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(overhead, "IDLE", 1.0)
    measured = bench_overhead(3, 2, tmp_path)
    assert measured.overhead_ms == measured.round_ms - measured.training_ms
    assert 0 < measured.training_ms < measured.round_ms
    assert measured.training_process_mb > measured.idle_mb  # torch is in one and not in the other
    # Two uploads to the broker and on to the coordinator; a state to it and on to two devices.
    up = 2 * measured.payload_bytes - measured.carried_bytes
    assert measured.carried_bytes > measured.payload_bytes > abs(up) > 0


def test_the_slowest_device_of_a_round_is_its_training_time(tmp_path):
    members = []
    for name, seconds in (("a", (9.0, 0.1, 0.2, 0.9)), ("b", (9.0, 0.4, 0.1, 0.3))):
        log = tmp_path / f"{name}.log"
        lines = [f"INFO trained round={n} seconds={s}\n" for n, s in enumerate(seconds, 1)]
        log.write_text("".join(lines))
        members.append(overhead.FleetProcess(name, None, log))
    # The first of four is not counted: of 0.4, 0.2 and 0.9 the middle.
    assert overhead._training_ms(members, 2) == 400
    assert overhead._training_ms([], 2) == 0
