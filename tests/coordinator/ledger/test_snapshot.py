"""A start from what was kept ends where adding up ends; whatever is wrong with it is noticed."""

import numpy as np
import pytest

from coordinator.journal.tables import ContributionRecord
from coordinator.ledger import keeper, snapshot
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.snapshot import SNAPSHOT, Recheck
from coordinator.ledger.versions import read_ledger
from protofleet.exchange import contributed
from tests.contributing import LINEAGE, arrived, message, read
from tests.coordinator.made import ledger

AGENTS = ("a", "b", "c")
CALM = 100.0  # seconds after which all that can be done was


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(keeper, "FEW", 1)


def said(made, agents=AGENTS, seed=0, now=1.0):
    made.take([arrived(a, message(a, ["apple", a], seed)) for a in agents], now)
    for n in range(3):  # published, offered for counting, kept
        made.take([], now + CALM + n)
    return made.state.sha256


def is_exact(made):
    """Whether the total is that of the contributions alone."""
    plain, _ = read_ledger(made.journal.ledger, Ledger(LINEAGE))
    return Recheck(made.keeper.ledger, ()).agrees(plain)


def restarted(made, monkeypatch):
    """Another life on the same folder: it, and how many contributions were folded for it."""
    folded, plus = [], Ledger.plus
    monkeypatch.setattr(Ledger, "plus", lambda *args: folded.append(args[1]) or plus(*args))
    made.journal.close()
    again = ledger(made.journal.directory)
    monkeypatch.setattr(Ledger, "plus", plus)
    return again, folded


def test_what_was_kept_is_not_added_up_again_and_what_came_since_is(tmp_path, monkeypatch):
    made = ledger(tmp_path)
    first = said(made)
    again, folded = restarted(made, monkeypatch)
    assert (again.state.sha256, folded) == (first, [])
    late = message("z", ["apple", "z"])
    record = ContributionRecord("z", "", contributed.read(late).digest)
    with again.journal.commit():  # it was written, and the process ended
        again.journal.ledger.put_contribution(LINEAGE, record, late)
    third, folded = restarted(again, monkeypatch)
    assert folded == ["z"]
    assert is_exact(third)
    third.journal.close()


def test_where_a_contribution_was_replaced_since_all_are_added_up(tmp_path, monkeypatch):
    made = ledger(tmp_path)
    said(made)
    made.take([arrived("b", message("b", ["apple", "b"], 7))], 2 * CALM)
    again, folded = restarted(made, monkeypatch)
    assert sorted(folded) == ["a", "b", "c"]
    fresh = ledger(tmp_path / "fresh")
    said(fresh, "ac")
    fresh.take([arrived("b", message("b", ["apple", "b"], 7))], 2 * CALM)
    fresh.take([], 3 * CALM)
    assert again.state.sha256 == fresh.state.sha256
    again.journal.close()
    fresh.journal.close()


@pytest.mark.parametrize("harm", ["cut", "flip", "gone", "other", "meta"])
def test_a_snapshot_that_is_not_whole_is_not_believed(harm, tmp_path, monkeypatch):
    made = ledger(tmp_path)
    first, file = said(made), tmp_path / SNAPSHOT
    data = file.read_bytes()
    if harm == "cut":
        file.write_bytes(data[:-1])
    elif harm == "flip":
        file.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    elif harm == "gone":
        file.unlink()
    elif harm == "other":  # a total that is whole, and not of this journal
        file.write_bytes(b"PK")
    else:
        with made.journal.commit():
            made.journal.set_meta(SNAPSHOT, "0" * 64)
    again, folded = restarted(made, monkeypatch)
    assert (again.state.sha256, sorted(folded)) == (first, ["a", "b", "c"])
    again.journal.close()


def test_a_wrong_total_under_the_right_hash_is_found_out_when_all_stands_still(tmp_path):
    made = ledger(tmp_path)
    first = said(made)
    wrong = made.keeper.ledger.plus("x", read("x", ["apple"]))
    entries = {place: entry for place, entry in wrong.entries.items() if place[0] != "x"}
    assert len(entries) == 3
    kept = Ledger(LINEAGE, ids=wrong.ids, total=wrong.total)
    snapshot.write(made.journal, kept.holding(entries))
    made.journal.close()
    again = ledger(tmp_path)
    assert again.state.sha256 != first
    for n in range(12):
        again.take([], CALM + n)
    assert again.state.sha256 == first
    assert is_exact(again)
    again.journal.close()


def test_a_device_that_is_forgotten_is_in_no_snapshot(tmp_path, monkeypatch):
    made = ledger(tmp_path)
    said(made)
    gone = made.forget("b", 2 * CALM)[0]
    assert not (tmp_path / SNAPSHOT).exists()
    again, folded = restarted(made, monkeypatch)
    assert (again.state.sha256, folded) == (gone.after, ["a", "c"])
    for n in range(3):
        again.take([], CALM + n)
    kept = snapshot.read(again.journal, LINEAGE)
    assert {agent for agent, _ in kept.entries} == {"a", "c"}
    assert b"b" not in np.load(tmp_path / SNAPSHOT)["about"].tobytes().split(b'"')
    again.journal.close()


def test_adding_up_again_says_what_cannot_be_read():
    whole = Ledger(LINEAGE).plus("a", read("a", ["apple"])).plus("b", read("b", ["pear"]))
    recheck = Recheck.of(whole)
    while recheck.open:
        recheck = recheck.step(
            lambda agent, source: read(agent, ["apple" if agent == "a" else "p"])
        )
    assert not recheck.agrees(whole)
    other = Recheck.of(whole)
    while other.open:
        other = other.step(lambda agent, source: read(agent, ["apple" if agent == "a" else "pear"]))
    assert other.agrees(whole)
