"""Bytes that only grow: read back as they were written, and a torn end belongs to no one."""

import os

import pytest

from coordinator.errors import JournalError
from coordinator.journal import segments
from coordinator.journal.segments import AT_ONCE, SegmentLog, Span


def files(folder):
    return {path.name: path.stat().st_size for path in folder.glob("bodies-*")}


def test_many_messages_come_back_each_as_it_was(tmp_path):
    log = SegmentLog(tmp_path)
    messages = [os.urandom(n % 7 + 1) for n in range(AT_ONCE + 3)]  # more than one call writes
    spans = log.add(messages) + log.add([b"later"])
    assert [log.read(span) for span in spans] == [*messages, b"later"]
    assert log.size() == sum(map(len, messages)) + 5


def test_nothing_to_write_begins_no_file(tmp_path):
    assert SegmentLog(tmp_path).add([]) == []
    assert files(tmp_path) == {}


def test_every_life_begins_a_segment_of_its_own(tmp_path):
    first = SegmentLog(tmp_path)
    (span,) = first.add([b"one"])
    first.close()
    second = SegmentLog(tmp_path)
    assert second.add([b"two"]) == [Span(2, 0, 3)]
    assert second.read(span) == b"one"


def test_a_message_that_lost_its_end_is_not_there(tmp_path):
    log = SegmentLog(tmp_path)
    one, two = log.add([b"one", b"two"])
    os.truncate(tmp_path / "bodies-1", 5)
    assert (log.read(one), log.read(two)) == (b"one", None)


def test_a_full_segment_is_followed_by_the_next_and_can_go(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "LARGEST", 10)
    log = SegmentLog(tmp_path)
    spans = [log.add([bytes(6)])[0] for _ in range(4)]
    assert [span.file for span in spans] == [1, 1, 2, 2]
    log.drop(but=())
    assert files(tmp_path) == {"bodies-2": 12}  # the one that is written to stays
    assert log.read(spans[0]) is None


def test_a_write_that_fails_leaves_nothing_and_the_next_goes_elsewhere(tmp_path, monkeypatch):
    log = SegmentLog(tmp_path)
    (span,) = log.add([b"whole"])

    def half(file, messages):
        os.write(file, b"torn")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(segments, "_write", half)
        with pytest.raises(JournalError, match="cannot be written"):
            log.add([b"torn apart"])
    assert files(tmp_path) == {"bodies-1": 5}
    assert log.add([b"next"]) == [Span(2, 0, 4)]
    assert log.read(span) == b"whole"


def test_bytes_of_uploads_are_their_owner_s_alone(tmp_path):
    before = os.umask(0)
    try:
        log = SegmentLog(tmp_path)
        log.add([b"an upload"])
        log.close()
    finally:
        os.umask(before)
    file = tmp_path / "bodies-1"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    log.close_to_others()
    assert file.stat().st_mode & 0o777 == 0o600
