"""What the coordinator says, as its readers decode it."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.messages import TEMPLATES, BundleBlob, Messages
from coordinator.rounds.machine import RoundRules, RunState
from protofleet import registry, wire
from protofleet.exchange.state import GlobalState
from protofleet.mqtt.topics import Topics
from tests.coordinator.made import CONTRACT, TOPICS

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
hashes = st.text("0123456789abcdef", min_size=64, max_size=64)
numbers = st.integers(0, 10**9)
RULES = RoundRules(lambda number, agents: agents, rounds=3)
DIGEST = "ab" * 32


def messages(topics=TOPICS, contract=CONTRACT, epoch=1):
    recipe = registry.load("fedproto")
    return Messages(topics, contract, recipe, recipe.hyper(), epoch, "boot", 131_072)


def body(publication):
    return wire.decode(publication.payload).body


@given(names, numbers, names, numbers, hashes, st.sampled_from(["accepted", "late", "duplicate"]))
def test_a_receipt_is_byte_for_byte_the_encoders(fleet, epoch, agent, round, digest, status):
    receipt = messages(Topics(fleet), epoch=epoch).receipt(agent, round, digest, status)
    envelope = wire.Envelope(
        "receipt", fleet, CONTRACT.run, epoch, agent, round=round, method="fedproto"
    )
    document = {"digest": digest, "round": round, "status": status}
    assert receipt.payload == wire.encode(envelope, document)
    assert (receipt.qos, receipt.retain) == (0, False)


def test_receipts_of_many_rounds_stay_right_and_are_not_remembered_for_ever():
    speaker = messages()
    for number in range(2 * TEMPLATES):
        message = wire.decode(speaker.receipt("agent", number, DIGEST, "accepted").payload)
        assert (message.envelope.round, message.body["round"]) == (number, number)
    assert len(speaker._templates) <= TEMPLATES


def test_a_refusal_says_why_in_at_most_so_many_letters():
    receipt = body(messages().receipt("a", 1, DIGEST, "refused", "norm", "x" * 999))
    assert (receipt["status"], receipt["reason"], receipt["words"]) == (
        "refused",
        "norm",
        "x" * 250,
    )


def test_a_receipt_that_asks_for_chunks_names_them():
    receipt = body(messages().receipt("a", 1, DIGEST, "missing", missing=((0, 2), (5, 6))))
    assert receipt["missing"] == [[0, 2], [5, 6]]


def test_a_pause_shows_between_rounds_and_not_while_one_is_open():
    def phase(state):
        return body(messages().state(state, RULES))["phase"]

    assert phase(RunState("waiting", 1, paused=True)) == "paused"
    assert phase(RunState("collecting", 1, paused=True)) == "collecting"


def test_what_the_broker_keeps_is_retained_and_a_device_without_a_part_is_told_so():
    state = GlobalState()
    publications = [
        messages().state(RunState(), RULES),
        messages().train(0, state),
        messages().own("a", 0, state),
    ]
    assert all(p.retain for p in publications)
    assert body(publications[2]) == {}


def test_a_channel_without_a_bundle_is_emptied():
    nothing = messages().bundle("stable", BundleBlob("", "", 0))
    assert (nothing.payload, nothing.retain) == (b"", True)
