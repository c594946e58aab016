"""A crew of real processes, whose broker is never there: who dies or stalls is replaced."""

import io
import os
import signal
from dataclasses import replace

import pytest

from coordinator.ingestion import crew as crews
from coordinator.ingestion.crew import IngesterCrew
from coordinator.ingestion.words import Members, OpenRound
from coordinator.journal.segments import SegmentLog
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.util.logs import Log
from tests.coordinator.ingestion.together import job_of
from tests.coordinator.made import core
from tests.linking import eventually

STANDING = OpenRound(1, 0, "", 1, "")


@pytest.fixture
def crew(tmp_path):
    (tmp_path / "data").mkdir()
    made = core(tmp_path / "core")
    log, segments = io.StringIO(), SegmentLog(tmp_path / "data")
    crew = IngesterCrew(2, job_of(made, tmp_path / "data"), segments, Log(log), lambda: None)
    crew.words = log
    yield crew
    crew.stop()
    eventually(lambda: crew.heard() == [] and not crew.pids)


def answering(crew):
    """Both, and what they add up: nothing."""
    crew.start()
    crew.tell(STANDING)
    assert list(crew.totals(1)) == []
    return crew.pids


def test_who_is_killed_comes_back_under_its_number(crew):
    pids = answering(crew)
    assert len(pids) == 2
    os.kill(pids[0], signal.SIGKILL)
    eventually(lambda: crew.heard() == [] and len(crew.pids) == 2 and crew.pids != pids)
    assert crew.pids[1] == pids[1]
    assert "an ingester ended" in crew.words.getvalue()
    assert list(crew.totals(1)) == []  # the new one answers, too


def test_who_answers_no_cut_is_ended_and_replaced(crew, monkeypatch):
    pids = answering(crew)
    monkeypatch.setattr(crews, "PATIENCE", 0.2)
    os.kill(pids[1], signal.SIGSTOP)
    assert list(crew.totals(1)) == []
    assert "answers no cut" in crew.words.getvalue()
    eventually(lambda: crew.heard() == [] and len(crew.pids) == 2 and crew.pids[1] != pids[1])


def test_who_says_nothing_is_ended_and_replaced(crew, monkeypatch):
    pids = answering(crew)
    os.kill(pids[0], signal.SIGSTOP)
    monkeypatch.setattr(crews, "SILENCE", 3.0)
    eventually(lambda: crew.heard() == [] and crew.pids and pids[0] not in crew.pids)
    assert "says nothing" in crew.words.getvalue()


def test_numbers_of_segments_are_given_out_once_and_come_back_with_a_death(crew):
    pids = answering(crew)
    reserved = set(crew._segments._reserved)
    assert len(reserved) == 2 * (crews.AT_HAND + 1)
    os.kill(pids[0], signal.SIGKILL)
    eventually(lambda: crew.heard() == [] and len(crew.pids) == 2 and crew.pids != pids)
    crew.heard()
    assert len(crew._segments._reserved) == len(reserved)
    assert crew._segments._reserved != reserved


def test_keys_that_are_the_same_are_no_news(crew):
    members = Members({"a": b"k" * 32}, everyone=True)
    crew.members(members)
    assert crew._job == replace(crew._job, members=members)


def test_a_crew_that_is_stopped_starts_nobody(crew):
    answering(crew)
    crew.stop()
    eventually(lambda: crew.heard() == [] and not crew.pids)
    crew.heard()
    assert crew.pids == []


def test_a_broker_that_is_not_there_is_waited_for_no_longer_than_a_while(crew, monkeypatch):
    monkeypatch.setattr(crews, "READY", 0.3)
    crew.settle()
    assert (len(crew.pids), crew.refused) == (2, "")


@pytest.mark.parametrize(
    ("prefer", "users", "words"),
    [
        ("mosquitto", None, ""),
        ("mosquitto", {"coordinator": "secret"}, "one connection a user"),
        ("embedded", None, "no shared subscriptions"),
    ],
)
def test_whether_a_broker_deals_uploads_out_is_said_by_what_it_does(
    tmp_path, monkeypatch, prefer, users, words
):
    if prefer == "mosquitto" and mosquitto.find() is None:
        pytest.skip("mosquitto is not installed")
    monkeypatch.setattr(crews, "READY", 60.0)
    how = {"users": users} if users else {}
    with running_broker(tmp_path / "broker", prefer=prefer, **how) as broker:
        address = replace(broker.address, **login(users))
        job = replace(job_of(core(tmp_path / "core"), tmp_path), address=address)
        crew = IngesterCrew(2, job, SegmentLog(tmp_path), Log(io.StringIO()), lambda: None)
        crew.settle()
        eventually(lambda: crew.heard() == [] and words in crew.refused)
        assert bool(words) == bool(crew.refused)
        crew.stop()
        eventually(lambda: crew.heard() == [] and not crew.pids)


def login(users):
    return {} if users is None else {"username": "coordinator", "password": "secret"}
