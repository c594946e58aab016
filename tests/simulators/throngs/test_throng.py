"""A crowd is small here, and everything else as at ten thousand: real broker, coordinator and page,
devices in two processes, half of them cut off in the midst of a round.
"""

import resource
from dataclasses import replace
from unittest.mock import Mock

import pytest

from coordinator.journal.journal import Journal
from protofleet.errors import FleetError
from protofleet.mqtt.broker import mosquitto
from simulators.cli.bench_crowd_cmd import table
from simulators.throngs import throng
from simulators.throngs.throng import CrowdOptions, bench_crowd, losses, make_room
from tests.browsing import free_port
from tests.coordinator.made import AGENTS, core, joined, upload


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_nobody_of_a_crowd_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(throng, "SETTLE", 0.5)
    said = []
    options = CrowdOptions(devices=40, share=0.5, port=free_port(), each=20)
    figures = bench_crowd(options, tmp_path, said.append)
    assert figures.lost == 0
    assert (figures.processes, figures.asked) == (2, 20)
    assert set(figures.states.values()) == {"same"}
    acts = {act.name: act.devices for act in figures.acts}
    assert acts == {
        "births": 40,
        "a round": 20,
        "the ledger": 40,
        "counts": 40,
        "cut off": 20,
        "back": 20,
    }
    assert 0 < figures.announcement_bytes < 1024
    assert figures.journal_bytes > 0
    assert any(words.startswith("births: ") for words in said)
    assert table(figures).splitlines()[-1].endswith(" 0")


def test_what_has_a_receipt_and_is_in_no_journal_is_lost(tmp_path):
    made = core(tmp_path, rounds=1)
    _, _, base = joined(made)
    made.take([upload(agent, 1, base) for agent in AGENTS], 1.0)
    digests = {u.agent: u.digest for u in made.journal.uploads(1)}
    made.journal.close()
    journal = Journal.read(tmp_path)
    receipts = {agent: {digest: [1, "accepted"]} for agent, digest in digests.items()}
    assert losses(journal, receipts) == (0, 3)
    assert losses(journal, receipts | {"a": {"00" * 32: [1, "accepted"]}}) == (1, 3)
    assert losses(journal, receipts | {"a": {digests["a"]: [1, "refused"]}}) == (1, 3)
    journal.close()


def test_who_was_asked_and_is_in_no_cut_is_lost(tmp_path):
    made = core(tmp_path, rounds=1)
    _, _, base = joined(made)
    made.take([upload(agent, 1, base) for agent in AGENTS[:2]], 1.0)
    assert losses(made.journal, {}) == (3, 3)  # of a round that is not cut nobody is in it
    made.journal.close()


def test_open_files_are_made_room_for_as_far_as_the_system_allows(monkeypatch):
    limits, raised = [(1024, 4096)], []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[0])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: raised.append(pair))
    make_room(1000)
    assert raised == []
    make_room(3000)
    assert raised == [(3000, 4096)]
    with pytest.raises(FleetError, match="here 4096 are allowed"):
        make_room(5000)
    limits[0] = (1024, resource.RLIM_INFINITY)
    make_room(5000)
    assert raised[-1] == (5000, resource.RLIM_INFINITY)


def test_an_act_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr(throng, "PATIENCE", 0.05)

    looker = Mock(newest={}, slowest=(0.0, 0.0))
    monkeypatch.setattr(throng.raw, "cpu", lambda pid: 0.0)
    stage = throng.Stage(2, None, 0, Mock(), looker, lambda words: None)
    with pytest.raises(FleetError, match="births: not over after"):
        stage.act("births", 2, lambda now: False)
    assert replace(stage.act("births", 2, lambda now: True), seconds=0).devices == 2
