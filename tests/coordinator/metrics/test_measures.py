"""What Prometheus is told is what `status` says; its series are bounded whatever devices say."""

import json

import pytest

from coordinator.alerts import KINDS
from coordinator.metrics.measures import MOST_DEVICES, measures
from coordinator.service import status
from coordinator.service.vitals import vitals
from protofleet.metrics.exposition import exposition
from tests.coordinator.made import AGENTS, birth, core, joined, ledger, upload


def document(made, now=1.0):
    """As the service answers, through JSON as it travels."""
    whole = status.status(made, made.messages, now, 12.0, True, made.allowance.dropped)
    whole = {**whole, "vitals": vitals(made, {"outgoing": 3, "requests": 0})}
    return json.loads(json.dumps(whole))


def scraped(made, now=1.0):
    agents = json.loads(json.dumps(status.agents(made, now)))["agents"]
    return {
        (family.name, *(value for _, value in point.labels), point.suffix): point.value
        for family in measures(document(made, now), agents)
        for point in family.points
    }


@pytest.fixture
def made(tmp_path):
    """Two of three have answered the first round."""
    made = core(tmp_path)
    _, _, base = joined(made)
    made.take([upload(agent, 1, base) for agent in AGENTS[:2]], 1.0)
    return made


def test_a_round_is_counted_from_its_opening_to_its_fusion(made):
    before = scraped(made)
    assert before["protofleet_round", ""] == before["protofleet_rounds_opened_total", ""] == 1
    assert before["protofleet_round_answered", ""] == 2
    assert before["protofleet_uploads_admitted_total", ""] == 2
    assert before["protofleet_fusion_seconds", "_count"] == 0
    made.take([upload("c", 1, made.journal.round(1).base)], 2.0)
    after = scraped(made)
    assert after["protofleet_rounds_closed_total", "complete", ""] == 1
    assert after["protofleet_fusion_seconds", "_count"] == 1
    assert after["protofleet_fusion_seconds", "+Inf", "_bucket"] == 1
    assert after["protofleet_rounds_failed_total", ""] == 0
    assert after["protofleet_queue_messages", "outgoing", ""] == 3
    assert after["protofleet_disk_free_bytes", ""] > 0
    assert after["protofleet_journal_bytes", ""] > 0


def test_a_fusion_that_fails_is_counted_as_one(made, monkeypatch):
    def stumbles(number):
        raise ArithmeticError("no inverse")

    monkeypatch.setattr(made, "_outcome", stumbles)
    made.take([upload("c", 1, made.journal.round(1).base)], 2.0)
    assert scraped(made)["protofleet_rounds_failed_total", ""] == 1


def test_a_refusal_shows_by_its_reason(made):
    made.take([upload("a", 7, "0" * 64)], 1.0)
    refused = {key[1]: v for key, v in scraped(made).items() if "uploads_refused" in key[0]}
    assert refused
    assert refused == made.intake.counters.refused


def test_a_device_is_in_one_state_of_four(made):
    made.take([birth("b", online=False, reason="left")], 5.0)
    made.take([birth("c", online=False, reason="lost")], 5.0)
    told = scraped(made, 6.0)
    states = {key[1]: v for key, v in told.items() if key[0] == "protofleet_devices"}
    assert states == {"online": 1, "silent": 0, "lost": 1, "left": 1}
    assert told["protofleet_device_online", "a", ""] == 1
    assert told["protofleet_device_silence_seconds", "c", ""] == 1
    assert ("protofleet_device_silence_seconds", "b", "") not in told


def test_a_service_that_does_not_answer_is_one_line():
    (answers,) = measures(None)
    assert exposition([answers]).body.decode().splitlines()[-1] == (
        "protofleet_coordinator_answers 0.0"
    )


def test_a_thousand_devices_cost_bounded_series(made):
    agents = [
        {
            "agent": f"camera-{n:04}",
            "online": True,
            "left": False,
            "seen_seconds_ago": 1.0,
            "accuracy": {"head": 0.5},
            "samples": 3,
        }
        for n in range(1000)
    ]
    families = {family.name: family for family in measures(document(made), agents)}
    for name in ("online", "samples", "silence_seconds", "accuracy_ratio"):
        assert len(families[f"protofleet_device_{name}"].points) == MOST_DEVICES
    assert families["protofleet_devices_unlisted"].points[0].value == 1000 - MOST_DEVICES
    present = {dict(p.labels)["presence"]: p.value for p in families["protofleet_devices"].points}
    assert present["online"] == 1000


def test_every_kind_of_alert_has_a_number_before_there_is_one(made):
    raised = [{"kind": "silent", "sentence": "?"}] * 2
    families = {f.name: f for f in measures({**document(made), "alerts": raised})}
    numbers = {dict(p.labels)["kind"]: p.value for p in families["protofleet_alerts"].points}
    assert set(numbers) == set(KINDS)
    assert (numbers["silent"], numbers["disk"]) == (2, 0)


def test_what_nobody_measured_is_not_there(tmp_path):
    made = ledger(tmp_path)
    told = scraped(made)
    assert ("protofleet_held_out_accuracy_ratio", "") not in told
    assert not [key for key in told if key[0] == "protofleet_accuracy_ratio"]
