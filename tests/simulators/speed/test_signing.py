"""Members that never asked are heard as such; how fast is not asked."""

import time

import pytest

from coordinator.members.office import Office
from coordinator.members.roster import MemberKeys
from protofleet.errors import TrustError
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.topics import Topics
from protofleet.trust.sealing import Gate
from protofleet.trust.sequence import Numbers
from simulators.speed.ingest import bench_ingest, middle
from simulators.speed.signing import SigningCrew, opened_us


def test_a_crew_is_heard_under_its_own_names(tmp_path):
    crew, topic = SigningCrew.of_folder(tmp_path, "f", ["a", "b"]), Topics("f").upload("a", 1)
    office = Office(tmp_path, "f", time.time)
    try:
        gate = Gate(MemberKeys(office, everyone=True), Numbers())
        assert gate.open("a", topic, "upload", crew.seal("a", topic, b"said")).message == b"said"
        with pytest.raises(TrustError, match="not that of a"):
            gate.open("a", topic, "upload", crew.seal("b", topic, b"said"))
    finally:
        office.close()


def test_a_gate_takes_time(tmp_path):
    assert 0 < opened_us(1000, tmp_path, times=5) < 1e6


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_signed_uploads_are_taken_in_beside_plain_ones(tmp_path):
    runs = middle(bench_ingest(30, 1, tmp_path, lambda words: None, signed=True))
    assert [(run.name, run.uploads, run.lost) for run in runs[1:]] == [
        ("coordinator", 30, 0),
        ("coordinator, signed", 30, 0),
    ]
