"""Which engine a directory goes by, and that both have the same tables."""

import pytest

from coordinator.errors import JournalError, NoJournal
from coordinator.journal import database
from coordinator.journal.copying import TABLES
from coordinator.journal.database import WriteClaim
from coordinator.journal.journal import Journal
from protofleet.errors import UsageError


def test_a_directory_remembers_its_server(postgres, tmp_path):
    address = postgres.database()
    first = Journal(tmp_path, lambda: 0.0, address=address)
    with first.commit():
        first.set_meta("run", "r")
    first.close()
    assert database.address_of(tmp_path) == address
    assert database.holds_journal(tmp_path)
    for again in (Journal.read(tmp_path), Journal(tmp_path, lambda: 0.0)):
        assert again.meta("run") == "r"
        again.close()
    assert not (tmp_path / "journal.db").exists()


def test_a_directory_with_a_journal_of_its_own_is_not_moved_by_a_setting(postgres, tmp_path):
    Journal(tmp_path, lambda: 0.0).close()
    with pytest.raises(JournalError, match="a journal of its own") as caught:
        Journal(tmp_path, lambda: 0.0, address=postgres.database())
    assert "coordinator backup" in caught.value.hint
    Journal(tmp_path, lambda: 0.0).close()  # its lock was given back


def test_a_place_without_a_journal_is_said(postgres, tmp_path):
    assert not database.holds_journal(tmp_path)
    for address in ("", postgres.database()):
        with pytest.raises(NoJournal):
            Journal.read(tmp_path, address)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("journal.db", "no address"),
        ("mysql://db/x", "no address"),
        ("postgresql://me:secret@db/x", "password"),
        ("postgresql://db/x?password=secret", "password"),
    ],
)
def test_an_address_that_may_not_stand_in_settings_is_refused(tmp_path, address, words):
    with pytest.raises(UsageError, match=words) as caught:
        Journal(tmp_path, lambda: 0.0, address=address)
    assert "secret" not in str(caught.value)


def test_who_stands_by_looks_again_until_it_is_free(journal, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "NAP", 0.0)
    first, holders = journal(tmp_path), []

    def look(holder):
        holders.append(holder)
        if len(holders) == 3:
            first.close()

    journal(tmp_path, claim=WriteClaim(look)).close()
    assert len(holders) == 3
    assert all("process" in holder for holder in holders)


def test_both_engines_have_the_same_tables(postgres, tmp_path):
    here = Journal(tmp_path / "file", lambda: 0.0)
    there = Journal(tmp_path / "server", lambda: 0.0, address=postgres.database())
    sql = (
        "SELECT column_name::text, is_nullable = 'NO' FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = ? ORDER BY ordinal_position"
    )
    for table in (*TABLES, "logged"):
        columns = here._db.execute(f"PRAGMA table_info({table})")
        plain = [(row[1], bool(row[3] or row[5])) for row in columns]
        assert there._db.execute(sql, (table,)) == plain, table
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    assert {name for (name,) in here._db.execute(names)} == {*TABLES, "logged"}
    here.close()
    there.close()
