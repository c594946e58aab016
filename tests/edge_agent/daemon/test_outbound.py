"""What a device says, as those who hear it decode it."""

from dataclasses import replace

import pytest

from edge_agent.daemon import outbound
from edge_agent.records import OutboxEntry
from edge_agent.worker.ipc import DataSurvey, Measured
from protofleet import wire
from tests.edge_agent.fakes import BOOT, TOPICS, FakeLink, outbound_to

UPLOAD = OutboxEntry("r", 3, "0" * 64, "fedproto", "d", b"\xa0", "c" * 16, 9)


def test_whoever_is_lost_and_whoever_leaves_are_told_apart():
    for message, reason in (
        (outbound.will(TOPICS, "a", BOOT).payload, "lost"),
        (outbound.farewell(TOPICS, "a", BOOT).payload, "left"),
    ):
        envelope, body, _ = wire.decode(message)
        assert body == {"online": False, "reason": reason}
        assert (envelope.agent, envelope.boot, envelope.run) == ("a", BOOT, None)
    assert outbound.farewell(TOPICS, "a", BOOT).retain


def test_a_birth_tells_of_the_samples_and_of_what_computes_once_that_is_known(tmp_path):
    link = FakeLink()
    device = outbound_to(link, tmp_path)
    device.birth("", -1, DataSurvey(("x", "y"), 5), "")
    device.birth("r", 2, DataSurvey(("x", "y"), 5), "mps")
    first, second = link.messages()
    assert (first.envelope.run, first.envelope.epoch) == (None, None)
    assert (second.envelope.run, second.envelope.epoch) == ("r", 2)
    assert "device" not in first.body
    assert second.body == first.body | {"device": "mps"}
    assert (first.body["classes"], first.body["samples"]) == (["x", "y"], 5)
    assert first.envelope.seq < second.envelope.seq
    assert all(retained for _, _, retained in link.published)


def test_an_upload_has_the_same_bytes_each_time_and_the_same_body_under_another_epoch():
    first, again, newer = (outbound.upload_message("f", "a", UPLOAD, n) for n in (1, 1, 2))
    assert first == again
    assert first != newer
    one, two = wire.decode(first), wire.decode(newer)
    assert one.digest == two.digest
    assert replace(one.envelope, epoch=2) == two.envelope
    assert one.envelope.boot == UPLOAD.boot  # of the training that made it


def test_a_full_link_refuses_without_a_word_and_costs_no_bytes(tmp_path):
    link, counts = FakeLink(full=True), []
    device = outbound_to(link, tmp_path, counts)
    assert not device.say("t", b"12345")
    link.full = False
    assert device.say("t", b"12345")
    assert counts == [5]


@pytest.mark.parametrize("validation", [{}, {"head": (1, 2)}])
def test_an_evaluator_without_samples_has_no_accuracy(validation):
    tallies = {"test": {"head": (3, 4), "own": (0, 0)}, "validation": validation}
    body = outbound.accuracy(Measured("r", 1, tallies))
    assert (body["accuracy"], body["n"]) == ({"head": 0.75}, {"head": 4})
    assert ("validation" in body) == bool(validation)
    assert outbound.accuracy(Measured("r", 1, {})) == {"accuracy": {}, "n": {}}
