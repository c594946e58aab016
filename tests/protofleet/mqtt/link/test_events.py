"""Tickets: what became of a publication, for those who look and for those who wait."""

import threading
import time
from threading import Condition

from protofleet.mqtt.link.events import Ticket


def test_a_ticket_says_what_became_of_it():
    accepted, refused = Ticket(Condition()), Ticket(Condition())
    assert (accepted.done, accepted.refused, accepted.wait(0.0)) == (False, None, False)
    accepted.settle(None)
    refused.settle("not allowed")
    assert (accepted.done, accepted.refused, accepted.wait(0.0)) == (True, None, True)
    assert (refused.done, refused.refused, refused.wait(0.0)) == (True, "not allowed", True)


def test_who_waits_is_woken_when_it_is_settled_and_not_by_anothers():
    shared = Condition()  # as all tickets of a link have it
    ticket, other = Ticket(shared), Ticket(shared)
    waits = threading.Event()
    woken = []

    def wait():
        waits.set()
        woken.append(ticket.wait(30))

    thread = threading.Thread(target=wait)
    thread.start()
    waits.wait(30)
    assert not other.wait(0.01)
    other.settle(None)
    thread.join(0.05)
    assert thread.is_alive()
    ticket.settle(None)
    thread.join(30)
    assert woken == [True]


def test_a_wait_has_an_end():
    before = time.monotonic()
    assert not Ticket(Condition()).wait(0.02)
    assert 0.02 <= time.monotonic() - before < 5
