"""What a group said is there in its order after a crash, or not at all, and can be forgotten."""

import pytest

from coordinator.journal.minutes import GroupRecord, Minute
from coordinator.journal.records import CutRecord, RoundRecord
from protofleet.exchange.state import GlobalState

GROUP = GroupRecord(b"s" * 16, 3, "complete", b"terms", {"weights/a": (3, 4)})
SAID = [
    Minute("publickeys", "b", b"keys of b"),
    Minute("publickeys", "a", b"keys of a"),
    Minute("went on"),
    Minute("boxes", "a", b"boxes"),
]


@pytest.fixture
def journal(journal, tmp_path):
    return journal(tmp_path)


def put(journal, group=GROUP):
    with journal.commit():
        journal.minutes.put_group(group)
        journal.add_minutes(group.session, SAID[:2])
    with journal.commit():
        journal.add_minutes(group.session, SAID[2:])


def test_all_of_it_in_its_order(journal):
    assert journal.minutes.group(3) is None
    put(journal)
    assert journal.minutes.group(3) == GROUP
    assert journal.minutes_of(GROUP) == SAID


def test_a_commit_that_failed_leaves_nothing(journal):
    put(journal)

    def fails():
        with journal.commit():
            journal.add_minutes(GROUP.session, [Minute("reveal", "a", b"shares")])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert journal.minutes_of(GROUP) == SAID


def test_old_rounds_are_forgotten_with_their_uploads(journal):
    put(journal)
    for number in (3, 4, 5):
        with journal.commit():
            journal.add_round(RoundRecord(number, "00" * 32, number - 1, (), True))
            journal.add_cut(CutRecord(number, "complete", ()))
            journal.add_state(number, GlobalState())
    journal.forget(keep=3)
    assert journal.minutes_of(GROUP) == SAID
    journal.compact(keep=3)
    assert journal.minutes_of(GROUP) == SAID
    journal.forget(keep=1)
    assert journal.minutes_of(GROUP) is None
