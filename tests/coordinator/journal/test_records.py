"""The statuses of uploads are the schema's, and what SQLite takes the short way."""

import sqlite3

import pytest

from coordinator.journal.journal import Journal
from coordinator.journal.records import ACCEPTED, HELD, LATE, UploadRecord


@pytest.mark.parametrize("status", [ACCEPTED, HELD, LATE])
def test_a_status_is_a_plain_string_that_the_schema_knows(tmp_path, status):
    assert type(status) is str
    journal = Journal(tmp_path, lambda: 0.0)
    with journal.commit():
        journal.add_uploads([(1, "a", "00" * 32, status, b"")])
    assert journal.uploads() == [UploadRecord(1, "a", "00" * 32, None, status, None)]
    journal.close()


def test_the_schema_knows_no_other(tmp_path):
    journal = Journal(tmp_path, lambda: 0.0)
    with pytest.raises(sqlite3.IntegrityError):
        journal._db.execute("INSERT INTO uploads VALUES (1, 'a', '', NULL, 'refused', NULL, 0)")
    journal.close()
