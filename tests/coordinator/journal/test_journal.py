"""The journal on either engine: whole or not at all, one holder, and nothing twice."""

import contextlib

import numpy as np
import pytest

from coordinator.errors import JournalError
from coordinator.journal import journal as journal_module
from coordinator.journal.journal import SCHEMA
from coordinator.journal.records import CutRecord, RoundRecord
from protofleet.exchange.state import GlobalState
from protofleet.values.prototypes import Prototypes


def state(value):
    return GlobalState({"p": Prototypes(np.array([0]), np.full((1, 2), value))}, {"a": {}}, {})


def filled(journal, folder, rounds):
    made = journal(folder)
    for r in range(1, rounds + 1):
        with made.commit():
            made.add_round(RoundRecord(r, "00" * 32, r - 1, ("a", "b"), True))
        with made.commit():
            made.add_uploads([(r, "a", f"{r:064x}", "accepted", bytes([r]) * 1000)])
        with made.commit():
            made.add_cut(CutRecord(r, "complete", ((r, "a", 1),)))
            made.add_state(r, state(r))
    return made


def test_what_is_committed_is_there_again(journal, tmp_path):
    filled(journal, tmp_path, 3).close()
    again = journal(tmp_path)
    assert [r.round for r in again.rounds()] == [1, 2, 3]
    assert again.upload(2, "a").cut == 2
    assert again.cut(3).counted == ((3, "a", 1),)
    assert again.state()[0] == 3
    assert again.state()[1] == state(3)
    assert again.state_hashes()[2] == state(2).sha256


def test_a_block_that_fails_leaves_nothing(journal, tmp_path):
    made = filled(journal, tmp_path, 1)
    with contextlib.suppress(RuntimeError), made.commit():
        made.add_uploads([(1, "b", "ff" * 32, "accepted", b"x")])
        raise RuntimeError
    assert made.upload(1, "b") is None
    assert [made.body(i) for i in (1, 2, 3)][2] is None


def test_an_upload_is_taken_once(journal, tmp_path):
    made = filled(journal, tmp_path, 1)
    with pytest.raises(JournalError), made.commit():
        made.add_uploads([(1, "a", "ff" * 32, "accepted", b"other")])
    assert made.upload(1, "a").digest == f"{1:064x}"


def test_one_coordinator_a_directory(journal, tmp_path):
    made = journal(tmp_path)
    with pytest.raises(JournalError, match="in use by another coordinator"):
        journal(tmp_path)
    made.close()
    journal(tmp_path).close()


def test_compaction_keeps_hashes_and_the_last_rounds(journal, tmp_path):
    made = filled(journal, tmp_path, 10)
    assert made.compact(3) > 0
    assert len(made.state_hashes()) == 10
    assert made.state(2) is None
    assert made.state(9)[1] == state(9)
    assert made.body(made.upload(2, "a").blob) is None
    assert made.body(made.upload(9, "a").blob) == bytes([9]) * 1000


def test_a_newer_schema_is_left_alone(journal, tmp_path, monkeypatch):
    journal(tmp_path).close()
    monkeypatch.setattr("coordinator.journal.journal.SCHEMA", SCHEMA - 1)
    with pytest.raises(JournalError, match=f"schema {SCHEMA}"):
        journal(tmp_path)


@pytest.mark.parametrize("ends", ["open", "cut", "done"])
def test_compacting_to_nothing_leaves_a_round_without_its_outcome_whole(journal, tmp_path, ends):
    made = filled(journal, tmp_path, 3)
    with made.commit():
        made.add_round(RoundRecord(4, "00" * 32, 3, ("a", "b"), True))
        made.add_uploads(
            [(3, "b", "ee" * 32, "held", b"late"), (4, "a", "ff" * 32, "accepted", b"x")]
        )
    if ends != "open":
        with made.commit():
            made.add_cut(CutRecord(4, "complete", ((4, "a", 1), (3, "b", 1))))
    if ends == "done":
        with made.commit():
            made.add_state(4, state(4))
    made.compact(0)
    bodies = [made.body(made.upload(*key).blob) for key in ((4, "a"), (3, "b"))]
    assert bodies == ([None, None] if ends == "done" else [b"x", b"late"])
    assert made.state()[1] == state(4 if ends == "done" else 3)
    assert made.body(made.upload(3, "a").blob) is None


def test_events_that_devices_cause_have_an_end(journal, tmp_path, monkeypatch):
    monkeypatch.setattr("coordinator.journal.journal.MOST_EVENTS", 200)
    made = journal(tmp_path)
    with made.commit():
        for number in range(1000):
            made.add_event("classes", 7, why=str(number))
    assert [event["why"] for event in made.events(last=1000)] == [*map(str, range(800, 1000))]


def test_a_block_inside_another_is_part_of_it(journal, tmp_path):
    made = journal(tmp_path)
    with contextlib.suppress(RuntimeError), made.commit():
        with made.commit():
            made.set_meta("one", "1")
        assert made.meta("one") == "1"
        raise RuntimeError
    assert made.meta("one") is None
    with made.commit():
        with made.commit():
            made.set_meta("one", "1")
        with made.commit():
            made.set_meta("two", "2")
    made.close()
    again = journal(tmp_path)
    assert (again.meta("one"), again.meta("two")) == ("1", "2")


def test_of_a_block_one_of_whose_parts_failed_nothing_is_written(journal, tmp_path):
    made = journal(tmp_path)

    def write():
        with made.commit():
            made.set_meta("one", "1")
            with contextlib.suppress(RuntimeError), made.commit():
                raise RuntimeError

    with pytest.raises(JournalError, match="a part"):
        write()
    assert made.meta("one") is None
    with made.commit():
        made.set_meta("two", "2")
    assert made.meta("two") == "2"


def test_rounds_that_are_asked_for_again_and_again_are_read_once(journal, tmp_path, monkeypatch):
    made, readings = filled(journal, tmp_path, 12), []
    reading = journal_module._round
    monkeypatch.setattr(journal_module, "_round", lambda *row: readings.append(1) or reading(*row))
    for _ in range(50):
        assert made.round(3).round == 3  # late uploads are of a round that is over
        assert made.round(12).round == 12
    assert len(readings) == 1
    assert made.round(13) is None
    # One that was not written after all is not remembered, either.
    with contextlib.suppress(RuntimeError), made.commit():
        made.add_round(RoundRecord(13, "00" * 32, 12, ("a",), True))
        assert made.round(13) is not None
        raise RuntimeError
    assert made.round(13) is None
