"""Whatever a broker brings, it becomes an event or one of our errors; a state is in the store
first.
"""

import io
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.daemon import inbound
from edge_agent.daemon.inbound import InboundDecoder
from edge_agent.daemon.masker import Masker
from edge_agent.daemon.transfers import Transfers
from edge_agent.protocol.events import Announced, Coordinator, Own, Receipt, RoundSpec, Shared
from edge_agent.records import Checkpoint, OutboxEntry
from edge_agent.store import Store
from protofleet import wire
from protofleet.contract import Contract, Input
from protofleet.errors import FleetError, LinkError, SettingError, WireError
from protofleet.exchange.lots import Lots
from protofleet.mqtt.blobs.descriptor import descriptor_message
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.topics import TopicParts
from protofleet.settings.fields import from_plain, to_plain
from protofleet.util.logs import Log
from protofleet.wire import Envelope
from tests.edge_agent.fakes import BOOT, TOPICS, FakeLink, outbound_to

CONTRACT = to_plain(Contract("f", "r", 0, ("a", "b"), Input("vector", (3,)), 4))
BODY = {
    "phase": "open",
    "contract": CONTRACT,
    "hyper": {},
    "participants": ["a"],
    "base_round": 2,
    "own": True,
}
BASE = "0" * 64


def head(t, **more):
    return Envelope(
        **(
            {
                "t": t,
                "fleet": "f",
                "run": "r",
                "epoch": 3,
                "round": 3,
                "method": "fedproto",
                "base": BASE,
            }
            | more
        )
    )


def test_messages_become_events():
    spec = RoundSpec("r", "fedproto", CONTRACT, {})
    assert inbound.read_announcement(head("round"), BODY) == Announced(
        "r", 3, 3, "open", ("a",), 2, BASE, True, spec
    )
    assert inbound.read_coordinator(
        head("state"), {"online": True, "mode": "async"}
    ) == Coordinator("r", 3, True, True)
    assert inbound.read_state(head("global")) == Shared("r", 3, 3, BASE)
    assert inbound.read_state(head("own")) == Own("r", 3, 3, BASE)
    body = {"round": 3, "status": "missing", "digest": "d", "missing": [[0, 4], [7, 7]]}
    assert inbound.read_receipt(head("receipt"), body) == Receipt(
        "r", 3, 3, "missing", "", "", "d", ((0, 4), (7, 7))
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"contract": None}, "round.body.contract: missing"),
        ({"contract": CONTRACT | {"classes": ["a", "a"]}}, "classes: names must differ"),
        ({"participants": "all"}, "round.body.participants: neither"),
        ({"bar": -1}, "round.body.bar: not a whole number"),
        ({"bar": True}, "round.body.bar: not a whole number"),
        ({"base_round": -1}, "round.body.base_round: missing"),
        ({"hyper": 3}, "round.body.hyper: not a map"),
    ],
)
def test_an_announcement_that_makes_no_sense_is_one_line(change, words):
    with pytest.raises((WireError, SettingError)) as found:
        inbound.read_announcement(head("round"), BODY | change)
    assert words in str(found.value)


def test_who_is_asked_is_named_or_knows_it_by_its_lot():
    lots = Lots(from_plain(Contract, CONTRACT), 3, 2**62)
    names = [f"device-{n}" for n in range(100)]
    asked = [name for name in names if lots.ask(name)]
    assert 30 < len(asked) < 70
    announced = inbound.read_announcement(head("round"), BODY | {"participants": [], "bar": 2**62})
    assert [name for name in names if announced.asks(name)] == asked
    # As an older coordinator says it, and where all take part.
    assert inbound.read_announcement(head("round"), BODY).asks("a")
    assert not inbound.read_announcement(head("round"), BODY).asks("device-1")
    assert inbound.read_announcement(head("round"), BODY | {"participants": None}).asks("b")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = [*BODY, "online", "mode", "round", "status", "reason", "digest", "missing", "packet", "bar"]


@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.booleans())
def test_any_document_is_an_event_or_an_error_of_ours(changes, bare):
    envelope = Envelope("round", "f") if bare else head("round")
    for read in (inbound.read_announcement, inbound.read_coordinator, inbound.read_receipt):
        with suppress(FleetError):
            read(envelope, BODY | changes)


SHARED, OWN = TopicParts(None, "shared_state"), TopicParts("a", "own_state")
STATE = Envelope("global", "f", "r", 3, round=2, base=BASE)
# No parts: whether a state can be opened is for the training process to see.
LARGE = wire.enclose(STATE, bytes(9000))


@pytest.fixture
def decoder(tmp_path):
    store = Store(tmp_path)
    store.take_over(BOOT)
    device = outbound_to(FakeLink(), tmp_path)
    transfers = Transfers(TOPICS, "a", tmp_path / "spool", device, lambda: 0.0, 1 << 20)
    masker = Masker("a", store, Log(io.StringIO()))
    yield InboundDecoder(TOPICS, store, transfers, masker)
    store.close()


def test_a_state_is_in_the_store_as_it_came_before_there_is_an_event(decoder):
    own = wire.enclose(Envelope("own", "f", "r", 3, "a", round=2, base=BASE), b"\xa0")
    assert decoder.take_in(SHARED, LARGE) == Shared("r", 3, 2, BASE)
    assert decoder.take_in(OWN, own) == Own("r", 3, 2, BASE)
    assert decoder.store.held("global", "r", 2, BASE) == LARGE
    assert decoder.store.held("own", "r", 2, BASE) == own


def test_what_is_empty_or_for_others_is_nothing(decoder):
    assert decoder.take_in(SHARED, b"") is None
    assert decoder.take_in(TopicParts(None, "proto", ("stable",)), b"whatever") is None
    assert decoder.take_in(TopicParts("a", "own_chunk", ("a" * 64, "0")), b"unasked") is None


def test_what_is_of_another_fleet_or_in_the_wrong_place_changes_nothing(decoder):
    stranger = wire.enclose(Envelope("global", "g", "r", 3, round=2, base=BASE), b"\xa0")
    with pytest.raises(LinkError, match="it is of fleet 'g', this device is of 'f'"):
        decoder.take_in(SHARED, stranger)
    elsewhere = wire.enclose(STATE, b"\xa0")  # a state of all on the topic of a device's own
    with pytest.raises(LinkError, match="a message of type global has no place here"):
        decoder.take_in(OWN, elsewhere)
    blob = OutgoingBlob(LARGE, 1000)
    with pytest.raises(LinkError, match="a slip for 'global' has no place here"):
        decoder.take_in(OWN, descriptor_message(STATE, blob.descriptor))
    assert decoder.store.held("global", "r", 2, BASE) is None
    assert decoder.transfers.receiver.due is None


def test_a_large_state_is_an_event_once_its_last_chunk_came_and_never_fetched_again(decoder):
    blob = OutgoingBlob(LARGE, 1000)
    descriptor = descriptor_message(STATE, blob.descriptor)
    assert decoder.take_in(SHARED, descriptor) is None
    events = [
        decoder.take_in(
            TopicParts(None, "shared_chunk", (blob.descriptor.digest, str(n))), blob.chunk(n)
        )
        for n in range(blob.descriptor.chunks)
    ]
    assert events == [None] * (blob.descriptor.chunks - 1) + [Shared("r", 3, 2, BASE)]
    assert decoder.store.held("global", "r", 2, BASE) == LARGE
    # The retained descriptor comes again with every connection.
    assert decoder.take_in(SHARED, descriptor) == Shared("r", 3, 2, BASE)
    assert decoder.transfers.receiver.due is None


def test_an_announcement_says_how_large_packets_may_be_and_keeps_silent_about_it(decoder):
    for packet, largest in ((4096, 4096), (0, 4096)):
        message = wire.encode(head("round"), BODY | {"packet": packet})
        event = decoder.take_in(TopicParts(None, "round"), message)
        assert isinstance(event, Announced)
        assert decoder.transfers.packet == largest


@pytest.mark.parametrize(
    ("status", "digest", "counts"),
    [
        ("accepted", "ours", True),
        ("accepted", "others", False),
        ("accepted", "", False),
        ("refused", "others", False),
        ("refused", "", True),  # it could not read ours at all
        ("conflict", "others", True),  # it has other bytes, and keeps them
    ],
)
def test_a_receipt_counts_for_the_bytes_that_were_sent(decoder, status, digest, counts):
    upload = OutboxEntry("r", 3, BASE, "fedproto", "ours", b"\xa0", BOOT, 3)
    decoder.store.commit_round(BOOT, "r", Checkpoint(3, 2, BASE, b""), upload, 0.0)
    body = {"round": 3, "status": status, "digest": digest}
    receipt = decoder.take_in(TopicParts("a", "receipt"), wire.encode(head("receipt"), body))
    assert (receipt == Receipt("r", 3, 3, status, digest=digest)) == counts
    assert (receipt is None) != counts
