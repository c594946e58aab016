"""Publications on their way: bounded, in order, settled once, and kept over connections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.errors import LinkBusy
from protofleet.mqtt.link.outbox import Outbox, Record


class Settled:
    """An outbox, and the tickets it reported."""

    def __init__(self, most=100, most_bytes=10_000):
        self.reported = []
        self.outbox = Outbox(most, most_bytes, self.reported.append)

    def put(self, name, size=1, qos=1, tell=False, force=False):
        ticket = self.outbox.ticket()
        record = Record(name, bytes(size), qos, False, None, None, tell, ticket)
        self.outbox.put(record, force)
        return ticket

    def fly(self, packet):
        record = self.outbox.next()
        self.outbox.in_flight(packet, record)
        return record


def waiting(outbox):
    names = []
    while (record := outbox.next()) is not None:
        names.append(record.topic)
    return names


def test_it_is_bounded_in_publications_and_in_bytes_counting_what_flies():
    few = Settled(most=2)
    few.put("a")
    few.fly(1)
    few.put("b")
    with pytest.raises(LinkBusy, match="2 publications"):
        few.put("c")
    few.outbox.acknowledged(1, None)
    few.put("c")
    small = Settled(most_bytes=1000)
    small.put("a", 600)
    with pytest.raises(LinkBusy, match="600 bytes"):
        small.put("b", 401)
    small.put("b", 400)


def test_one_that_is_alone_always_fits_and_a_farewell_fits_always():
    box = Settled(most_bytes=10)
    box.put("large", 5000)
    with pytest.raises(LinkBusy):
        box.put("small", 0)
    box.put("farewell", force=True)
    assert waiting(box.outbox) == ["large", "farewell"]


def test_what_was_on_its_way_is_sent_again_first_and_in_order():
    box = Settled()
    tickets = {name: box.put(name, qos=name != "zero") for name in ("a", "b", "zero", "c")}
    for packet in (7, 3):
        box.fly(packet)
    box.outbox.disconnected()
    assert tickets["zero"].refused == "no connection"
    assert not any(tickets[name].done for name in "abc")
    assert waiting(box.outbox) == ["a", "b", "c"]
    assert box.outbox.pending == 3


def test_an_acknowledgement_of_an_earlier_connection_settles_nothing():
    box = Settled()
    ticket = box.put("a")
    box.fly(1)
    box.outbox.disconnected()
    assert box.outbox.acknowledged(1, None) is None
    assert not ticket.done
    box.fly(2)
    assert box.outbox.acknowledged(2, "not allowed").topic == "a"
    assert (ticket.done, ticket.refused) == (True, "not allowed")


def test_what_is_given_up_is_the_largest_of_what_flies():
    box = Settled()
    tickets = [box.put(str(size), size) for size in (10, 300, 20, 9000)]
    for packet in (1, 2, 3):
        box.fly(packet)
    assert box.outbox.give_up_largest("hung up").topic == "300"
    assert [ticket.refused for ticket in tickets] == [None, "hung up", None, None]
    assert Settled().outbox.give_up_largest("hung up") is None


def test_those_who_asked_are_told_and_a_refusal_is_a_ticket_that_is_done():
    box = Settled()
    box.put("quiet")
    told = box.put("told", tell=True)
    for packet in (1, 2):
        box.fly(packet)
        box.outbox.acknowledged(packet, None)
    assert box.reported == [told]
    refusal = box.outbox.refusal("no connection")
    assert (refusal.done, refusal.refused, box.outbox.pending) == (True, "no connection", 0)


@given(st.lists(st.tuples(st.sampled_from(["put", "fly", "ack", "lose"]), st.integers(0, 5))))
def test_every_publication_is_in_one_place_and_settled_once(steps):
    """Whatever happens in which order, nothing is lost, and what is counted is what is there."""
    box, tickets, done, packet = Settled(most=10**6, most_bytes=10**9), {}, [], 0
    for number, (step, low) in enumerate(steps):
        if step == "put":
            tickets[number] = box.put(str(number), size=number, qos=low > 0, tell=True)
        elif step == "fly":
            record = box.outbox.next()
            if record is not None and record.qos:
                packet += 1
                box.outbox.in_flight(packet, record)
            elif record is not None:
                box.outbox.settle(record)
        elif step == "ack":
            box.outbox.acknowledged(packet - low, None)
        else:
            box.outbox.disconnected()
        done = [ticket for ticket in tickets.values() if ticket.done]
        assert box.outbox.pending == len(tickets) - len(done)
    assert sorted(map(id, box.reported)) == sorted(map(id, done))
    box.outbox.abandon("stopped")
    assert box.outbox.pending == 0
    assert all(ticket.done for ticket in tickets.values())
    box.put("any", size=10**9)  # the bytes are counted down as well: alone it fits
