"""Topics are taken apart into what they were made of, and subscriptions cover what their reader
needs.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from protofleet.errors import UsageError
from protofleet.mqtt.topics import OF_HOMES, TopicParts, Topics, check_name

T = Topics("orchard")
D = "ab" * 32
# Devices and coordinators of other versions are on these topics: the strings never change.
TOPICS = {
    T.coordinator_state: ("c/state", TopicParts(None, "coordinator_state")),
    T.round: ("g/round", TopicParts(None, "round")),
    T.shared_state: ("g/train", TopicParts(None, "shared_state")),
    T.shared_chunk(D, 7): (f"g/blob/{D}/7", TopicParts(None, "shared_chunk", (D, "7"))),
    T.proto("stable"): ("g/stable/proto", TopicParts(None, "proto", ("stable",))),
    T.bundle("stable"): ("g/stable/bundle", TopicParts(None, "bundle", ("stable",))),
    T.state("a"): ("d/a/state", TopicParts("a", "state")),
    T.own_state("a"): ("d/a/down", TopicParts("a", "own_state")),
    T.upload("a", 12): ("d/a/up/12", TopicParts("a", "upload", ("12",))),
    T.receipt("a"): ("d/a/rcpt", TopicParts("a", "receipt")),
    T.chunk_request("a"): ("d/a/blob/req", TopicParts("a", "chunk_request")),
    T.own_chunk("a", D, 0): (f"d/a/blob/{D}/0", TopicParts("a", "own_chunk", (D, "0"))),
    T.upload_chunk("a", D, 3): (f"d/a/ub/{D}/3", TopicParts("a", "upload_chunk", (D, "3"))),
    T.group: ("g/group", TopicParts(None, "group")),
    T.box("a"): ("d/a/box", TopicParts("a", "box")),
    T.report("a"): ("d/a/evt", TopicParts("a", "report")),
    T.rollout: ("g/rollout", TopicParts(None, "rollout")),
    T.reported("a"): ("d/a/reported", TopicParts("a", "reported")),
    T.keys: ("g/keys", TopicParts(None, "keys")),
    T.listing: ("g/list", TopicParts(None, "listing")),
    T.ask("0123456789abcdef"): (
        "j/0123456789abcdef/ask",
        TopicParts(None, "ask", ("0123456789abcdef",)),
    ),
    T.answer("0123456789abcdef"): (
        "j/0123456789abcdef/answer",
        TopicParts(None, "answer", ("0123456789abcdef",)),
    ),
    T.renewal("a"): ("d/a/csr", TopicParts("a", "renewal")),
    T.certificate("a"): ("d/a/crt", TopicParts("a", "certificate")),
    T.fleet_home: ("c/home", TopicParts(None, "fleet_home")),
    T.sighting("a"): ("d/a/sight", TopicParts("a", "sighting")),
    T.picture("a"): ("d/a/picture", TopicParts("a", "picture")),
    T.home("a"): ("d/a/home", TopicParts("a", "home")),
    T.press("a", "contribute"): ("d/a/press/contribute", TopicParts("a", "press", ("contribute",))),
    T.sees("a", "door.bin"): ("d/a/sees/door.bin", TopicParts("a", "sees", ("door.bin",))),
}
FROM_DEVICE = {"state", "upload", "chunk_request", "upload_chunk", "report", "reported"}
OF_MEMBERS = {"keys", "listing", "ask", "answer", "renewal", "certificate"}


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_the_string_it_always_was_and_is_parsed_into_what_it_was_made_of(topic):
    tail, parts = TOPICS[topic]
    assert topic == f"pf/1/orchard/{tail}"
    assert T.parse(topic) == parts


def test_there_is_a_kind_for_every_method():
    makers = {name for name in vars(Topics) if not name.startswith(("_", "for_"))}
    kinds = {parts.kind for _, parts in TOPICS.values()}
    assert kinds == makers - {"fleet", "prefix", "parse"}


@pytest.mark.parametrize("topic", TOPICS)
def test_each_reader_subscribes_to_what_is_for_it_and_no_more(topic):
    def matches(filters):
        return sum(topic_matches_sub(pattern, topic) for pattern, _ in filters)

    _, parts = TOPICS[topic]
    office, member = matches(T.for_office()), matches(T.for_member("a"))
    assert office == (parts.kind in ("ask", "renewal"))
    assert member == (parts.kind in ("keys", "listing", "certificate"))
    assert matches(T.for_home("a")) == (parts.kind == "press")
    assert not matches(T.for_home("b"))
    if parts.kind in OF_MEMBERS | OF_HOMES | {"sees"}:
        assert not matches(T.for_coordinator()) + matches(T.for_device("a"))
        return
    from_device = parts.kind in FROM_DEVICE
    assert matches(T.for_coordinator()) == (from_device or parts.kind == "coordinator_state")
    assert matches(T.for_device("a")) == (not from_device)
    assert matches(T.for_device("b")) == (parts.agent is None)


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "pf/1/orchard",
        "pf/1/orchard/",
        "pf/1/other/g/round",
        "pf/1/orchardx/g/round",
        "x/pf/1/orchard/g/round",
        "pf/1/orchard/d/a/up",
        "pf/1/orchard/d/a/up/x",
        "pf/1/orchard/d/a/up/01",
        "pf/1/orchard/d/a/up/1/2",
        "pf/1/orchard/d/a/up/-1",
        "pf/1/orchard/d//state",
        "pf/1/orchard/d/a b/state",
        "pf/1/orchard/g/blob/xx/1",
        f"pf/1/orchard/d/a/ub/{D}/99999999999",
        "pf/1/orchard/d/a/state/x",
        "pf/1/orchard/d/a/cmd",
        "pf/1/orchard/d/a/desired",
        "pf/1/orchard/d/a/press",
        "pf/1/orchard/d/a/press/A",
        "pf/1/orchard/d/a/press/x/y",
        "pf/1/orchard/q",
    ],
)
def test_anything_else_is_none(topic):
    assert T.parse(topic) is None


@given(st.text(max_size=60), st.booleans())
def test_parse_takes_any_text(text, inside):
    parts = T.parse(f"pf/1/orchard/{text}" if inside else text)
    assert parts is None or isinstance(parts, TopicParts)


@pytest.mark.parametrize("name", ["a", "A-1.b_c", "0" * 63])
def test_names_that_fit(name):
    assert check_name("agent", name) == name


@pytest.mark.parametrize("name", ["", "-a", ".a", "a/b", "a b", "+", "#", "é", "a" * 64, "a\n"])
def test_names_that_do_not_are_a_usage_error(name):
    with pytest.raises(UsageError, match="agent name") as error:
        check_name("agent", name)
    assert "\n" not in str(error.value)
