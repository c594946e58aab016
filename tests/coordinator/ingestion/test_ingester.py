"""What an ingester lets in, folds and hands on; with any of them, and whoever dies, the state is
that of one process.
"""

import pytest

from coordinator.errors import JournalError
from coordinator.ingestion.words import Grant, Members, OpenRound, Over
from coordinator.service.replay import replayed
from protofleet import wire
from protofleet.trust import keys
from protofleet.trust.sealing import Signer
from protofleet.trust.sequence import Numbers, Sequence
from tests.coordinator.ingestion.together import Desk, Desks
from tests.coordinator.made import (
    AGENTS,
    TOPICS,
    agreed,
    core,
    expected,
    joined,
    parts_of,
    receipts,
    upload,
)


def begun(folder, **how):
    made = core(folder, **how)
    _, _, base = joined(made)
    desks = Desks(made, folder)
    desks.tell()
    return made, desks, base


def test_rounds_by_two_ingesters_end_as_by_one_process(tmp_path):
    made, desks, base = begun(tmp_path, rounds=2)
    one, two = desks.desks.values()
    for number in (1, 2):
        batches = [
            one.batch([upload("a", number, base), upload("b", number, base)]),
            two.batch([upload("c", number, base)]),
        ]
        assert [len(heard.batch.rows) for heard in batches] == [2, 1]
        said = made.take([], float(number), batches)
        assert sorted(receipts(said)) == [(a, "accepted", "") for a in AGENTS]
        base = made.state.base
        desks.tell()
    assert made.state.sha256 == expected(made, 2).sha256
    assert desks.back == [[], [], [], []]
    assert not made.aggregator.elsewhere


@pytest.mark.parametrize("dead", [(1,), (2,), (1, 2)])
def test_what_an_ingester_had_that_died_is_read_from_the_journal(tmp_path, dead):
    made, desks, base = begun(tmp_path, rounds=1)
    one, two = desks.desks.values()
    first = one.batch([upload("a", 1, base), upload("b", 1, base)])
    made.take([], 1.0, [first])
    last = two.batch([upload("c", 1, base)])
    for number in dead:
        del desks.desks[number]
    made.take([], 1.0, [last])
    assert made.state.sha256 == expected(made, 1).sha256
    assert {state.verdict for state in replayed(agreed(made).journal)} == {"same"}


def test_a_coordinator_that_starts_again_needs_no_ingester(tmp_path):
    made, desks, base = begun(tmp_path, rounds=1)
    made.take([], 1.0, [desks.desks[1].batch([upload("a", 1, base), upload("b", 1, base)])])
    made.journal.close()
    second = core(tmp_path, rounds=1)
    second.recover(0.0)
    second.take([upload("c", 1, base)], 1.0)
    assert second.state.sha256 == expected(second, 1).sha256


def test_of_one_device_s_uploads_at_two_ingesters_the_first_counts(tmp_path):
    made, desks, base = begun(tmp_path, rounds=1)
    one, two = desks.desks.values()
    other = upload("a", 1, base, parts_of("b", 1))
    batches = [
        one.batch([upload("a", 1, base)]),
        two.batch([other, upload("a", 1, base), upload("b", 1, base)]),
    ]
    said = made.take([], 1.0, batches)
    assert receipts(said) == [("a", "accepted", ""), ("b", "accepted", "")]
    assert desks.back == [[], [0, 1]]
    again = two.batch()  # what came back is handed on
    assert (len(again.batch.rows), len(again.batch.others)) == (0, 2)
    handed = [(TOPICS.parse(topic), payload) for topic, payload in again.batch.others]
    said = made.take(handed, 1.0, [again])
    assert sorted(receipts(said)) == [("a", "conflict", "conflict"), ("a", "duplicate", "")]
    assert two.link.acked == []
    two.order(Over(1))
    assert len(two.link.acked) == 1  # "b" alone: the others are still to be dealt with
    two.order(Over(2))
    assert len(two.link.acked) == 3
    made.take([upload("c", 1, base)], 1.0)
    assert made.state.sha256 == expected(made, 1).sha256


def test_rows_of_a_round_that_is_over_come_back_and_are_late(tmp_path):
    made, desks, base = begun(tmp_path, rounds=3, quorum=0.6)
    late = desks.desks[1].batch([upload("c", 1, base)])
    made.take([upload("a", 1, base), upload("b", 1, base)], 1.0)
    made.take([], 61.0)
    assert made.run_state.number == 2
    assert receipts(made.take([], 62.0, [late])) == []
    assert desks.back == [[0]]
    handed = desks.desks[1].batch().batch.others
    said = made.take([(TOPICS.parse(topic), payload) for topic, payload in handed], 62.0)
    assert receipts(said) == [("c", "late", "")]


def test_what_is_not_plainly_welcome_is_handed_on_as_it_came(tmp_path):
    _, desks, base = begun(tmp_path)
    topic, good = upload("a", 1, base)
    odd = [
        (topic, b"junk"),
        upload("a", 2, base),
        upload("a", 1, "00" * 32),
        upload("a", 1, base, run="r2"),
        upload("a", 1, base, {}),
        (TOPICS.parse(TOPICS.upload("a", 0)), good),
        (TOPICS.parse(TOPICS.upload("b", 1)), good),
    ]
    heard = desks.desks[1].batch(odd)
    assert heard.batch.rows == ()
    assert [payload for _, payload in heard.batch.others] == [payload for _, payload in odd]


def test_without_a_round_everything_is_handed_on(tmp_path):
    _, desks, base = begun(tmp_path)
    desks.desks[1].order(OpenRound(9, 0, "", 1, ""))
    assert len(desks.desks[1].batch([upload("a", 1, base)]).batch.others) == 1


def test_bytes_lie_where_the_row_says_before_it_is_said(tmp_path):
    made, desks, base = begun(tmp_path)
    topic, payload = upload("a", 1, base)
    (row,) = desks.desks[1].batch([(topic, payload)]).batch.rows
    assert made.journal.segments.read(row.span) == payload
    made.journal.segments.drop(but=[])  # no row of the journal points there yet
    assert made.journal.segments.read(row.span) == payload
    assert row.digest == wire.decode(payload).digest


def test_an_ingester_that_cannot_write_hands_on(tmp_path, monkeypatch):
    _, desks, base = begun(tmp_path)

    def full(messages):
        raise JournalError("no room")

    monkeypatch.setattr(desks.desks[1].ingester._segments, "add", full)
    heard = desks.desks[1].batch([upload("a", 1, base)])
    assert (len(heard.batch.rows), len(heard.batch.others)) == (0, 1)


def test_one_without_a_number_for_its_segment_hands_on(tmp_path):
    made, desks, base = begun(tmp_path)
    desk = desks.desks[1]
    desk.ingester._granted.clear()
    assert len(desk.batch([upload("a", 1, base)]).batch.others) == 1
    desk.order(Grant(made.journal.segments.reserve()))
    assert len(desk.batch([upload("b", 1, base)]).batch.rows) == 1


def test_a_total_begins_anew_with_each_standing(tmp_path):
    made, desks, base = begun(tmp_path)
    made.take([], 1.0, [desks.desks[1].batch([upload("a", 1, base)])])
    assert [group.uploads for group in desks.totals(made.aggregator.serial)] == [[(1, "a")]]
    made.recover(2.0)  # as after a disk that was full: all is read from the journal
    desks.tell()
    assert list(desks.totals(made.aggregator.serial)) == []
    made.take([upload("b", 1, base), upload("c", 1, base)], 3.0)
    assert made.state.sha256 != ""


def test_signatures_are_held_to_their_devices_and_numbers_to_all_that_was_heard(tmp_path):
    made = core(tmp_path)
    _, _, base = joined(made)
    made.numbers, key = Numbers(), keys.new()
    members = Members({"a": keys.raw(key.public_key())}, everyone=True)
    desk = Desk(made, tmp_path, members=members)
    desk.order(made.standing)
    signer = Signer(key, Sequence(tmp_path / "numbers"))
    topic, payload = upload("a", 1, base)
    where = made.topics.upload("a", 1)
    sealed = signer.seal(where, payload)
    odd = [(topic, payload), upload("b", 1, base), (topic, sealed[:-1] + b"x")]
    assert len(desk.batch(odd).batch.others) == 3
    heard = desk.batch([(topic, sealed)])
    (row,) = heard.batch.rows
    assert row.proof is not None
    made.numbers.take(("a", "upload"), row.number + 1)  # a later one was heard elsewhere
    assert made._returned(heard.batch) == [0]
    made.numbers = Numbers()
    assert receipts(made.take([], 1.0, [heard])) == [("a", "accepted", "")]
    (proof,) = made.journal.signatures.proofs("a")
    assert (proof.round, proof.proof) == (1, row.proof.signature)
    assert made.journal.signatures.heard() == {("a", "upload"): row.number}
