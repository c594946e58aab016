"""Whatever can happen to a device, its machine has a rule for it."""

import dataclasses
import inspect
from typing import get_args

import pytest

from edge_agent.protocol import events
from edge_agent.protocol.events import Event, RoundSpec
from edge_agent.protocol.machine import DeviceState, step
from edge_agent.protocol.retry import RetryRules
from protofleet.exchange.lots import Lots
from protofleet.masking.group import Survivors
from protofleet.wire.codes import Scope

SPEC = RoundSpec("r", "fedproto", {}, {})
EXAMPLES = {
    "str": "x",
    "int": 1,
    "bool": True,
    "Ranges": ((0, 1),),
    "Scope": Scope.AGAIN,
    "RoundSpec": SPEC,
    "Letter": Survivors(bytes(16), ("a", "b", "c")),
    "Lots | None": None,
    "tuple[int, ...]": (1,),
    "tuple[str, ...] | None": None,
}


def example(kind):
    return kind(*(EXAMPLES[field.type] for field in dataclasses.fields(kind)))


def test_every_class_of_the_module_is_an_event_but_what_an_announcement_carries():
    classes = {c for _, c in inspect.getmembers(events, dataclasses.is_dataclass)}
    assert classes - set(get_args(Event)) == {RoundSpec, Lots}


@pytest.mark.parametrize("kind", get_args(Event))
@pytest.mark.parametrize("run", ["", "x"])
def test_the_machine_takes_every_event_in_whatever_run_it_is_in(kind, run):
    me = DeviceState(RetryRules("a"), connected=True, run=run, epoch=1)
    after, actions = step(me, example(kind), 0.0)
    assert isinstance(after, DeviceState)
    assert isinstance(actions, list)


def test_the_same_round_announced_twice_is_the_same_event():
    """A device that backs off sends at once when it is asked anew: an echo must not look new."""
    first, second = (
        events.Announced("r", 1, 2, "open", ("a",), 1, "s", False, spec)
        for spec in (SPEC, RoundSpec("r", "fedproto", {}, {}))
    )
    assert first == second
    assert first != dataclasses.replace(first, spec=RoundSpec("r", "fedproto", {}, {"lam": 2}))
