"""The statuses of uploads are the schema's, and what engines take the short way."""

import pytest

from coordinator.errors import JournalError
from coordinator.journal.records import ACCEPTED, HELD, LATE, UploadRecord


@pytest.mark.parametrize("status", [ACCEPTED, HELD, LATE])
def test_a_status_is_a_plain_string_that_the_schema_knows(journal, tmp_path, status):
    assert type(status) is str
    made = journal(tmp_path)
    with made.commit():
        made.add_uploads([(1, "a", "00" * 32, status, b"")])
    assert made.uploads() == [UploadRecord(1, "a", "00" * 32, None, status, None)]


def test_the_schema_knows_no_other(journal, tmp_path):
    made = journal(tmp_path)
    with pytest.raises(JournalError):
        made._db.execute("INSERT INTO uploads VALUES (1, 'a', '', NULL, 'refused', NULL, 0)")
