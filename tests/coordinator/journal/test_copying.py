"""A copy is a whole journal, from either engine to either, and goes on from there."""

import pytest

from coordinator.errors import JournalError
from coordinator.journal.copying import TABLES
from coordinator.journal.journal import Journal
from coordinator.journal.minutes import GroupRecord, Minute
from coordinator.journal.progress import RolloutRecord, StepRecord
from coordinator.journal.signatures import ProofRecord
from coordinator.journal.tables import ContributionRecord, CountsRecord, VersionRecord
from protofleet.util.files import own_folder
from tests.coordinator.journal.test_journal import filled, state

GROUP = GroupRecord(b"s" * 16, 2, "complete", b"terms", {"weights/a": (3, 4)})
CONTRIBUTION = ContributionRecord("b", "", "d")


def rich(journal, folder):
    """A journal with something in every table."""
    made = filled(journal, folder, 2)
    with made.commit():
        made.set_meta("run", "r")
        made.keep_file("f", b"\0\xff")
        made.add_agent("a", {"samples": 5})
        made.add_event("joined", 2, agent="a")
        made.minutes.put_group(GROUP)
        made.add_minutes(GROUP.session, [Minute("boxes", "a", b"boxes"), Minute("went on")])
        made.ledger.put_contribution("e", CONTRIBUTION, b"body")
        made.ledger.put_counts("e", CountsRecord("a", "t", "d", b"counts"))
        made.ledger.put_version(VersionRecord(1, "e", "t", 5, 2, "s"))
        made.signatures.put_heard({("a", "upload"): 2**40})
        made.signatures.put_proofs([ProofRecord("a", 1, "00", b"one")])
        made.rollouts.put(RolloutRecord(1, {}, "open", 0, ""))
        made.rollouts.put_members(1, {"a": {"step": "trying"}})
        made.rollouts.add_steps([StepRecord(1, "a", "trying", "")])
        made._db.execute("INSERT INTO noise VALUES (1, ?)", (b"drawn",))
    return made


@pytest.mark.parametrize("to", ["file", "server"])
def test_all_of_it_is_there_and_goes_on(journal, postgres, tmp_path, to):
    made = rich(journal, tmp_path / "live")
    folder = own_folder(tmp_path / "copy")
    address = "" if to == "file" else postgres.database()
    made.backup(address or folder / "journal.db")
    copy = Journal(folder, lambda: 2.0, address=address)
    for table in TABLES:
        if table not in ("meta", "blobs"):
            sql = f"SELECT * FROM {table} ORDER BY 1, 2"
            assert copy._db.execute(sql) == made._db.execute(sql) != [], table
    assert (copy.meta("run"), copy.file("f")) == ("r", b"\0\xff")
    bodies = [bytes([1]) * 1000, bytes([2]) * 1000]
    assert [copy.body(kept.blob) for kept in copy.uploads()] == bodies
    assert (copy.minutes_of(GROUP), copy.state()) == (made.minutes_of(GROUP), (2, state(2)))
    with copy.commit():
        copy.add_uploads([(2, "b", "ff" * 32, "accepted", b"after it came back")])
        copy.add_event("after")
    assert copy.body(copy.upload(2, "b").blob) == b"after it came back"
    assert [event["kind"] for event in copy.events()] == ["joined", "after"]
    copy.close()


def test_a_server_that_holds_a_journal_is_left_alone_and_a_file_written_anew(
    journal, postgres, tmp_path
):
    made, address = filled(journal, tmp_path / "live", 1), postgres.database()
    made.backup(address)
    with pytest.raises(JournalError, match="holds a journal already"):
        made.backup(address)
    target = tmp_path / "copy.db"
    for _ in range(2):
        made.backup(target)
    assert target.stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "live"]
    with pytest.raises(JournalError, match="cannot be written"):
        made.backup(tmp_path / "nowhere" / "copy.db")
    with made.commit():
        made.add_event("and it goes on")
