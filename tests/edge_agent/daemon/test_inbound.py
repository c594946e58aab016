"""Whatever a broker brings, it becomes an event or one of our errors."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.daemon import inbound
from edge_agent.protocol.events import Announced, Coordinator, Own, Receipt, RoundSpec, Shared
from protofleet.contract import Contract, Input
from protofleet.errors import FleetError, SettingError, WireError
from protofleet.settings.fields import to_plain
from protofleet.wire import Envelope

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
        ({"contract": CONTRACT | {"classes": []}}, "classes: names must be given"),
        ({"participants": "all"}, "round.body.participants: neither"),
        ({"base_round": -1}, "round.body.base_round: missing"),
        ({"hyper": 3}, "round.body.hyper: not a map"),
    ],
)
def test_an_announcement_that_makes_no_sense_is_one_line(change, words):
    with pytest.raises((WireError, SettingError)) as found:
        inbound.read_announcement(head("round"), BODY | change)
    assert words in str(found.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = [*BODY, "online", "mode", "round", "status", "reason", "digest", "missing", "packet"]


@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.booleans())
def test_any_document_is_an_event_or_an_error_of_ours(changes, bare):
    envelope = Envelope("round", "f") if bare else head("round")
    for read in (inbound.read_announcement, inbound.read_coordinator, inbound.read_receipt):
        with suppress(FleetError):
            read(envelope, BODY | changes)
