"""Large payloads in chunks: any order, any loss, any lie; and through a broker with a packet limit,
over a cut.
"""

import os
from hashlib import sha256
from threading import Condition

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protofleet import wire
from protofleet.errors import BlobError, LinkBusy
from protofleet.mqtt.blobs.descriptor import (
    BlobDescriptor,
    BlobLimits,
    ranges_of,
    read_ranges,
    slip_message,
)
from protofleet.mqtt.blobs.sender import BlobSender, OutgoingBlob
from protofleet.mqtt.blobs.store import BlobStore
from protofleet.mqtt.link.link import Arrival, Ticket
from tests.linking import connect

payloads = st.binary(min_size=1, max_size=4000)
chunks = st.integers(256, 700)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def spool(tmp_path, clock):
    return BlobStore(tmp_path / "spool", largest=10_000, total=20_000, expiry=60, clock=clock)


@pytest.fixture(scope="session")
def spools(tmp_path_factory):
    """A spool of its own for each example."""

    def make():
        return BlobStore(
            tmp_path_factory.mktemp("spool"), largest=2**20, total=2**21, expiry=60, clock=Clock()
        )

    return make


def expanded(ranges):
    return [i for first, last in ranges for i in range(first, last + 1)]


@given(payloads, chunks, st.data())
@settings(max_examples=60)
def test_chunks_in_any_order_and_number_make_the_payload(spools, payload, chunk, data):
    parcel = OutgoingBlob(payload, chunk)
    incoming = spools().open("a", parcel.slip)
    every = list(range(parcel.slip.chunks))
    order = data.draw(
        st.permutations(every + data.draw(st.lists(st.sampled_from(every), max_size=5)))
    )
    there: set[int] = set()
    for index in order:
        assert incoming.complete == (len(there) == len(every))
        assert expanded(incoming.missing()) == [i for i in every if i not in there]
        assert incoming.add(index, parcel.chunk(index)) == (index not in there)
        there.add(index)
    assert incoming.payload() == payload
    assert incoming.missing() == []


@given(payloads.filter(lambda p: len(p) > 300), chunks, st.data())
@settings(max_examples=30)
def test_a_wrong_byte_is_never_handed_out_and_can_be_made_good(spools, payload, chunk, data):
    parcel = OutgoingBlob(payload, chunk)
    incoming = spools().open("a", parcel.slip)
    bad = data.draw(st.integers(0, parcel.slip.chunks - 1))
    for index in range(parcel.slip.chunks):
        piece = bytearray(parcel.chunk(index))
        piece[0] ^= index == bad
        incoming.add(index, bytes(piece))
    assert incoming.payload() is None
    assert incoming.missing() == parcel.slip.whole()
    for index in range(parcel.slip.chunks):
        incoming.add(index, parcel.chunk(index))
    assert incoming.payload() == payload


def test_chunks_that_cannot_be_ours_are_turned_away(spool):
    parcel = OutgoingBlob(os.urandom(1000), 300)
    incoming = spool.open("a", parcel.slip)
    for index, piece in [
        (-1, b"x" * 300),
        (4, b"x" * 300),
        (0, b"x" * 299),
        (0, b"x" * 301),
        (3, b"x" * 300),
        (0, b""),
    ]:
        assert not incoming.add(index, piece)
    assert incoming.missing() == [(0, 3)]


@given(st.sets(st.integers(0, 200)), st.integers(1, 20))
def test_ranges_say_the_same_as_the_numbers(numbers, most):
    runs = ranges_of(sorted(numbers), most)
    assert len(runs) <= most
    assert expanded(runs) == sorted(numbers)[: len(expanded(runs))]
    assert len(runs) == most or set(expanded(runs)) == numbers
    assert read_ranges([list(run) for run in runs], 201) == runs


junk = st.recursive(
    st.none() | st.integers() | st.text(max_size=3), lambda x: st.lists(x, max_size=3), max_leaves=6
)


@given(junk, st.integers(1, 10))
def test_ranges_from_outside_are_checked(value, count):
    try:
        runs = read_ranges(value, count)
    except BlobError:
        return
    assert all(0 <= first <= last < count for first, last in runs)
    assert len(expanded(runs)) == len(set(expanded(runs)))


@given(st.dictionaries(st.sampled_from(["digest", "size", "chunk"]), junk | st.just("ab" * 32)))
def test_slips_from_outside_are_checked(body):
    try:
        slip = BlobDescriptor.from_body(body)
    except BlobError:
        return
    assert slip.chunks <= 65_536


@pytest.mark.parametrize(
    ("size", "chunk"),
    [(10**9, 300), (2, 1), (0, 300), (300, 0), (-1, 300), (True, 300), (2**80, 2**20)],
)
def test_slips_that_would_cost_too_much_are_refused(size, chunk):
    with pytest.raises(BlobError):
        BlobDescriptor.from_body({"digest": "ab" * 32, "size": size, "chunk": chunk})


def test_a_slip_travels_in_the_envelope_of_what_it_stands_for():
    envelope = wire.Envelope("upload", "orchard", agent="a", round=3, base="cd" * 32)
    parcel = OutgoingBlob(b"x" * 5000, 1000)
    message = wire.decode(slip_message(envelope, parcel.slip))
    assert (message.envelope.t, message.envelope.agent, message.envelope.round) == ("slip", "a", 3)
    assert message.body["of"] == "upload"
    assert BlobDescriptor.from_body(message.body) == parcel.slip
    assert parcel.slip.digest == sha256(b"x" * 5000).hexdigest()


def test_a_transfer_goes_on_in_the_next_process(tmp_path, clock):
    parcel = OutgoingBlob(os.urandom(5000), 500)

    def process():
        return BlobStore(tmp_path, largest=10_000, total=20_000, expiry=60, clock=clock)

    first = process().open("a", parcel.slip)
    for index in (0, 1, 5):
        first.add(index, parcel.chunk(index))
    second = process()
    incoming = second.open("a", parcel.slip)
    assert incoming.missing() == [(2, 4), (6, 9)]
    for index in expanded(incoming.missing()):
        incoming.add(index, parcel.chunk(index))
    assert incoming.payload() is not None
    second.close("a", parcel.slip.digest)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"\1" * 9, b"\1" * 11, b"\2" * 10])
def test_damaged_marks_start_it_again(tmp_path, clock, damage):
    parcel = OutgoingBlob(os.urandom(5000), 500)
    spool = BlobStore(tmp_path, largest=10_000, total=20_000, expiry=60, clock=clock)
    spool.open("a", parcel.slip).add(0, parcel.chunk(0))
    next(tmp_path.glob("*.marks")).write_bytes(damage)
    again = BlobStore(tmp_path, largest=10_000, total=20_000, expiry=60, clock=clock)
    assert again.open("a", parcel.slip).missing() == [(0, 9)]


def test_the_spool_is_bounded_in_size_and_the_stalest_goes_first(spool, clock, tmp_path):
    with pytest.raises(BlobError, match="10001 bytes"):
        spool.open("a", OutgoingBlob(bytes(10_001), 1000).slip)
    slips = [OutgoingBlob(os.urandom(8000), 1000).slip for _ in range(3)]
    for number, slip in enumerate(slips):
        clock.now = number
        spool.open("a", slip)
        assert spool.size <= 20_000
    assert spool.find("a", slips[0].digest) is None
    assert spool.find("a", slips[2].digest) is not None
    assert len(list((tmp_path / "spool").iterdir())) == 4
    assert spool.find("b", slips[2].digest) is None  # another's chunks are not ours


def test_what_nobody_adds_to_is_forgotten(spool, clock, tmp_path):
    parcel = OutgoingBlob(bytes(8000), 1000)
    spool.open("a", parcel.slip)
    clock.now = 59
    spool.sweep()
    spool.find("a", parcel.slip.digest).add(0, parcel.chunk(0))
    clock.now = 118
    spool.sweep()
    assert spool.find("a", parcel.slip.digest) is not None
    clock.now = 120
    spool.sweep()
    assert spool.find("a", parcel.slip.digest) is None
    assert list((tmp_path / "spool").iterdir()) == []


def test_what_an_earlier_process_left_counts_and_goes(tmp_path, clock):
    old = BlobStore(tmp_path, largest=10_000, total=20_000, expiry=60, clock=clock)
    for _ in range(2):
        old.open("a", OutgoingBlob(os.urandom(9000), 1000).slip)
    new = BlobStore(tmp_path, largest=10_000, total=20_000, expiry=60, clock=clock)
    new.open("a", OutgoingBlob(os.urandom(9000), 1000).slip)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.parcel")) <= 20_000
    new.sweep()
    assert len(list(tmp_path.glob("*.parcel"))) == 1


class Post:
    """A link that takes what it is given, or nothing."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Ticket]] = []
        self.busy = False

    def publish(self, topic, payload, *, qos=1, tell=False):
        if self.busy:
            raise LinkBusy("full")
        ticket = Ticket(Condition())
        self.sent.append((topic, ticket))
        return ticket


def test_sending_keeps_a_window_and_sends_nothing_twice():
    post, sending = (
        Post(),
        BlobSender(OutgoingBlob(bytes(10_000), 1000), lambda i: f"c/{i}", window=4),
    )
    sending.want([(0, 9)])
    sending.want([(2, 5)])  # asked for again while it is under way
    for count in range(4, 11):
        assert not sending.pump(post)
        assert len(post.sent) == count
        post.sent[count - 4][1].settle(None)
    for _, ticket in post.sent[-3:]:
        ticket.settle(None)
    assert sending.pump(post)
    assert [topic for topic, _ in post.sent] == [f"c/{i}" for i in range(10)]
    sending.want([(7, 7)])
    post.busy = True
    assert not sending.pump(post)
    post.busy = False
    sending.pump(post)
    assert post.sent[-1][0] == "c/7"


def test_20_mb_pass_a_packet_limit_and_a_cut_costs_a_window(start_broker, links, proxied, tmp_path):
    """The sender's connection is cut in the middle; what is sent again is at most what was under
    way.
    """
    limits = BlobLimits()
    broker = start_broker(packet=limits.packet)
    proxy, address = proxied(broker)
    sender, receiver = links(address, "sender"), links(broker.address, "receiver")
    receiver.subscribe([("ub/#", 1)])
    connect(receiver)
    connect(sender)
    whole = sender.publish("ub/whole", bytes(limits.packet + 1))
    assert whole.wait(20)
    assert whole.refused  # the limit is real
    payload = os.urandom(20 * 2**20)
    parcel = OutgoingBlob(payload, limits.chunk)
    incoming = BlobStore(
        tmp_path / "spool", largest=2**26, total=2**27, expiry=60, clock=Clock()
    ).open("a", parcel.slip)
    sending = BlobSender(parcel, lambda i: f"ub/{i}", limits.window)
    sending.want(incoming.missing())
    arrived = 0
    cut = False
    while not incoming.complete:
        sending.pump(sender)
        sender.poll(0.01)
        for event in receiver.poll(0):
            if isinstance(event, Arrival):
                arrived += 1
                incoming.add(int(event.topic.partition("/")[2]), event.payload)
                receiver.ack(event)
        if not cut and arrived > 80:
            cut = True
            proxy.cut()
    assert incoming.payload() == payload
    assert cut
    assert arrived - parcel.slip.chunks <= limits.window
    assert (
        proxy.carried["up"]
        <= len(payload) + (limits.window + 1) * limits.packet + 200 * parcel.slip.chunks
    )
