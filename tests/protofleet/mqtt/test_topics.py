"""Topics are taken apart into what they were made of, and subscriptions cover what their reader
needs.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from protofleet.errors import UsageError
from protofleet.mqtt.topics import TopicParts, Topics, check_name

T = Topics("orchard")
D = "ab" * 32
MADE = {
    T.coordinator_state: TopicParts(None, "coordinator_state"),
    T.round: TopicParts(None, "round"),
    T.train: TopicParts(None, "train"),
    T.blob(D, 7): TopicParts(None, "blob", (D, "7")),
    T.proto("stable"): TopicParts(None, "proto", ("stable",)),
    T.bundle("stable"): TopicParts(None, "bundle", ("stable",)),
    T.state("a"): TopicParts("a", "state"),
    T.desired("a"): TopicParts("a", "desired"),
    T.reported("a"): TopicParts("a", "reported"),
    T.down("a"): TopicParts("a", "down"),
    T.upload("a", 12): TopicParts("a", "upload", ("12",)),
    T.receipt("a"): TopicParts("a", "receipt"),
    T.blob_req("a"): TopicParts("a", "blob_req"),
    T.blob_down("a", D, 0): TopicParts("a", "blob_down", (D, "0")),
    T.ub("a", D, 3): TopicParts("a", "ub", (D, "3")),
    T.cmd("a"): TopicParts("a", "cmd"),
    T.ack("a"): TopicParts("a", "ack"),
    T.evt("a"): TopicParts("a", "evt"),
}
FROM_DEVICE = {"state", "reported", "upload", "blob_req", "ub", "ack", "evt"}


def test_there_is_a_kind_for_every_method():
    assert len({place.kind for place in MADE.values()}) == len(MADE) == 18
    assert T.upload("a", 12) == "pf/1/orchard/d/a/up/12"


@pytest.mark.parametrize("topic", MADE)
def test_a_topic_is_parsed_into_what_it_was_made_of(topic):
    assert T.parse(topic) == MADE[topic]


@pytest.mark.parametrize("topic", MADE)
def test_each_reader_subscribes_to_what_is_for_it_and_no_more(topic):
    def hears(filters):
        return sum(topic_matches_sub(wanted, topic) for wanted, _ in filters)

    place = MADE[topic]
    from_device = place.kind in FROM_DEVICE
    assert hears(T.for_coordinator()) == (from_device or place.kind == "coordinator_state")
    assert hears(T.for_device("a")) == (not from_device)
    assert hears(T.for_device("b")) == (place.agent is None)


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
        "pf/1/orchard/q",
    ],
)
def test_anything_else_is_none(topic):
    assert T.parse(topic) is None


@given(st.text(max_size=60), st.booleans())
def test_parse_takes_any_text(text, inside):
    place = T.parse(f"pf/1/orchard/{text}" if inside else text)
    assert place is None or isinstance(place, TopicParts)


@pytest.mark.parametrize("name", ["a", "A-1.b_c", "0" * 63])
def test_names_that_fit(name):
    assert check_name("agent", name) == name


@pytest.mark.parametrize("name", ["", "-a", ".a", "a/b", "a b", "+", "#", "é", "a" * 64, "a\n"])
def test_names_that_do_not_are_a_usage_error(name):
    with pytest.raises(UsageError, match="agent name") as error:
        check_name("agent", name)
    assert "\n" not in str(error.value)
