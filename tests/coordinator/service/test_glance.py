"""Who asks how things stand need not wait for the loop, and sees whole commits."""

import pytest

from coordinator.errors import JournalError
from coordinator.service import glance
from protofleet.errors import FleetError
from tests.contributing import arrived, counted, message
from tests.coordinator.made import birth, core, joined, ledger, totals, upload


def counting(tmp_path):
    """A ledger of two devices that counted, and how it came to that."""
    made = ledger(tmp_path)
    for n, agent in enumerate("ab"):
        made.take([birth(agent, classes=["plum", "owl"])], 1.0)
        made.take([arrived(agent, message(agent, ["plum", "owl"], n, number=20))], 1.0)
    (total,) = totals(made.take([], 50.0))
    for n, agent in enumerate("ab"):
        made.take([arrived(agent, counted(agent, ["plum", "owl"], total, n, number=20))], 51.0)
    made.take([], 100.0)
    return made


def test_what_was_held_out_says_what_is_taken_for_what(tmp_path):
    made = counting(tmp_path)
    made.take([], 200.0)
    answer = glance.read(made, "learning", {})
    assert answer["classes"] == ["plum", "owl"]
    pairs = answer["confusion"]
    (measured,) = answer["measured"]
    assert sum(map(sum, pairs)) == measured["held_out"] == 80
    assert (pairs[0][0] + pairs[1][1]) / 80 > 0.9
    assert measured["accuracy"]["held out"] > 0.9
    made.classes("rename", {"name": "owl", "to": "eagle"}, 201.0)
    assert glance.read(made, "learning", {})["classes"] == ["plum", "eagle"]


def test_the_same_counts_are_one_measurement_also_after_a_restart(tmp_path):
    made = counting(tmp_path)
    made.recover(300.0)
    assert len(made.journal.history("measured")) == 1


def test_pairs_of_a_total_that_is_no_more_are_not_shown(tmp_path):
    made = counting(tmp_path)
    made.take([arrived("a", message("a", ["plum", "owl"], 9, number=21))], 300.0)
    assert glance.read(made, "learning", {})["confusion"] == []


def test_events_come_by_page_kind_and_device(tmp_path):
    made = counting(tmp_path)
    everything = glance.read(made, "events", {})
    assert {"contributed", "measured"} <= set(everything["kinds"])
    newest = glance.read(made, "events", {"last": 2})
    assert newest["events"] == everything["events"][-2:]
    assert newest["more"]
    older = glance.read(made, "events", {"before": newest["events"][0]["id"], "last": 200})
    assert [*older["events"], *newest["events"]] == everything["events"]
    (own,) = glance.read(made, "events", {"kind": "contributed", "agent": "b"})["events"]
    assert (own["agent"], own["samples"]) == ("b", 40)


def test_classes_are_those_of_the_newest_decision(tmp_path):
    made = ledger(tmp_path, enrol="manual")
    made.take([birth("a", classes=["plum", "owl"])], 1.0)
    made.take([arrived("a", message("a", ["plum", "owl"]))], 1.0)
    assert glance.classes(made)["waiting"] == ["owl"]
    made.classes("admit", {"name": "owl"}, 2.0)
    listing = glance.classes(made)
    assert listing["waiting"] == []
    assert listing == glance.with_awaited(made, made.classes("list", {}, 3.0)[0])


def test_rounds_are_read_beside_the_one_who_writes_them(tmp_path):
    made = core(tmp_path)
    _, _, base = joined(made)
    made.take([upload("a", 1, base)], 1.0)
    assert [row["round"] for row in glance.read(made, "rounds", {})["rounds"]] == [1]
    assert glance.read(made, "show", {"round": 1})["uploads"][0]["agent"] == "a"
    with pytest.raises(FleetError, match="was not opened"):
        glance.read(made, "show", {"round": 7})


def test_a_journal_that_cannot_be_read_is_an_answer(tmp_path):
    made = core(tmp_path)
    joined(made)
    made.journal._db.execute("DROP TABLE rounds")
    with pytest.raises(JournalError, match="cannot be read"):
        glance.read(made, "rounds", {})
