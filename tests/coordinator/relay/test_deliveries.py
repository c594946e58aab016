"""A site's messages on their way up, without a network."""

from hashlib import sha256

from coordinator.relay.deliveries import COUNTS, FIRST, LONGEST, SUMS, SiteDeliveries, TakenBook
from protofleet import wire
from protofleet.wire import Envelope

HEAD = Envelope("birth", "f", agent="north")


def message(number):
    return wire.encode(HEAD, {"number": number})


def digest(payload):
    return sha256(wire.unseal(payload)[1]).hexdigest()


def receipt(payload, status="accepted", **more):
    return {"round": 0, "digest": digest(payload), "status": status, **more}


def under_way():
    made = SiteDeliveries()
    made.under("r1", "e")
    made.offer(SUMS, message(1))
    return made


def test_a_message_is_said_until_its_receipt_and_then_never_again():
    made = under_way()
    assert made.due(0.0).payload == message(1)
    assert made.due(FIRST - 0.1) is None
    assert made.due(FIRST).payload == message(1)
    assert made.due(FIRST + 2 * FIRST - 0.1) is None
    assert made.answered(receipt(message(1)), "", 20.0).name == SUMS
    assert made.book.digests == {SUMS: digest(message(1))}
    made.offer(SUMS, message(1))
    assert made.under_way is None
    made.offer(SUMS, message(2))
    assert made.due(20.0).payload == message(2)


def test_a_newer_one_takes_its_place_and_what_was_taken_meanwhile_is_of_no_use():
    made = under_way()
    made.due(0.0)
    made.offer(SUMS, message(2))
    assert made.due(0.1).payload == message(2)
    assert made.answered(receipt(message(1)), "", 0.2) is None
    assert made.answered(receipt(message(2)), "", 0.3).digest == digest(message(2))
    made.offer(SUMS, message(3))
    made.offer(SUMS, message(2))  # it is as it was above
    assert made.under_way is None


def test_sums_go_before_counts():
    made = SiteDeliveries()
    made.under("r1", "e")
    made.offer(COUNTS, message(9))
    made.offer(SUMS, message(1))
    assert made.due(0.0).name == SUMS
    made.answered(receipt(message(1)), "", 0.1)
    assert made.due(0.1).name == COUNTS


def test_what_is_refused_waits_for_long_or_for_another_connection():
    made = under_way()
    made.due(0.0)
    assert made.answered(receipt(message(1), "refused", words="no  site\nhere"), "", 1.0) is None
    assert made.trouble == "no site here"
    assert made.due(LONGEST) is None
    made.retry()
    assert made.due(2.0).payload == message(1)
    made.answered(receipt(message(1)), "", 3.0)
    assert made.trouble == ""


def test_counts_that_are_refused_are_of_a_total_that_is_no_more():
    made = SiteDeliveries()
    made.under("r1", "e")
    made.offer(COUNTS, message(9))
    made.answered(receipt(message(9), "refused", words="another total"), "", 1.0)
    assert made.under_way is None


def test_a_receipt_may_name_a_large_message_and_may_ask_for_chunks():
    made = under_way()
    assert made.answered({"round": 0, "digest": "blob", "status": "missing"}, "blob", 0.0) is None
    assert made.trouble == ""
    assert made.answered({"round": 0, "digest": "", "status": "accepted"}, "", 0.0) is None
    assert made.answered({"round": 3, "digest": "blob", "status": "accepted"}, "blob", 0.0) is None
    assert made.answered({"round": 0, "digest": "blob", "status": "accepted"}, "blob", 0.0)


def test_to_another_run_or_of_another_extractor_nothing_was_said():
    made = SiteDeliveries(TakenBook("r1", "e", {SUMS: digest(message(1))}))
    made.under("r1", "e")
    made.offer(SUMS, message(1))
    assert made.under_way is None
    made.under("r2", "e")
    made.offer(SUMS, message(1))
    assert made.due(0.0).payload == message(1)
    made.under("r2", "f")
    assert (made.under_way, made.book.digests) == (None, {})
    made.offer(COUNTS, message(4))
    made.withdraw(COUNTS)
    assert made.under_way is None
