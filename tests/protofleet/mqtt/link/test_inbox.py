"""What came in and was not looked at yet: bounded, in order, and never both full and forgotten."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.mqtt.link.events import Arrival, Lost, Token
from protofleet.mqtt.link.inbox import BATCH, STATUSES, Inbox


def arrival(qos=1, size=1, name="t"):
    return Arrival(name, bytes(size), qos, False, Token(1, 1) if qos else None)


def test_it_is_full_by_messages_and_by_bytes_and_has_room_once_they_are_taken():
    by_count, by_bytes = Inbox(3, 10_000), Inbox(100, 1000)
    for _ in range(3):
        assert not by_count.full
        by_count.arrived(arrival())
    by_bytes.arrived(arrival(size=1000))
    for inbox in (by_count, by_bytes):
        assert inbox.full
        assert inbox.pause()
        assert inbox.paused
        inbox.take(0)
        assert not inbox.full
        assert not inbox.pause()
        assert not inbox.paused


def test_an_owner_that_empties_it_while_the_link_decides_is_not_waited_for():
    """Between the look and the flag: nobody would ring, so the link must look once more."""

    class Emptied(Inbox):
        """Is emptied by the owner right after the first look."""

        looks = 0

        @property
        def full(self):
            self.looks += 1
            return self.looks == 1

    racing = Emptied(2, 1000)
    assert not racing.pause()
    assert not racing.paused


def test_qos_0_fills_one_half_only_and_qos_1_is_never_dropped():
    inbox = Inbox(10, 10_000)
    for _ in range(8):
        inbox.arrived(arrival(qos=0))
    for _ in range(8):
        inbox.arrived(arrival(qos=1))
    assert inbox.dropped == 3
    assert [event.qos for event in inbox.take(0)] == [0] * 5 + [1] * 8
    heavy = Inbox(1000, 1000)
    heavy.arrived(arrival(qos=0, size=600))
    heavy.arrived(arrival(qos=0, size=1))
    assert heavy.dropped == 1


@given(st.lists(st.integers(0, 1), max_size=40), st.integers(1, 7))
def test_events_come_out_in_their_order(kinds, most):
    inbox, expected = Inbox(1000, 10_000), []
    for number, kind in enumerate(kinds):
        event = arrival(name=str(number)) if kind else Lost(str(number))
        expected.append(event)
        inbox.arrived(event) if kind else inbox.put_status(event)
    events = []
    while batch := inbox.take(0):
        events += batch
    assert events == expected


def test_a_batch_is_bounded_and_the_rest_comes_next():
    inbox = Inbox(10_000, 10_000)
    for _ in range(BATCH + 1):
        inbox.arrived(arrival())
    assert [len(inbox.take(0)) for _ in range(3)] == [BATCH, 1, 0]


def test_what_is_said_to_nobody_for_very_long_is_dropped():
    inbox = Inbox(5, 1000)
    for number in range(STATUSES + 100):
        inbox.put_status(Lost(str(number)))
    count = 0
    while batch := inbox.take(0):
        count += len(batch)
    assert count == STATUSES + 5


@pytest.mark.parametrize("late", [False, True])
def test_wake_ends_a_take_that_waits_and_one_that_is_to_come(late):
    inbox = Inbox(5, 1000)
    timer = threading.Timer(0.05 if late else 0.0, inbox.wake)
    timer.start()
    assert inbox.take(30) == []
    timer.join()
