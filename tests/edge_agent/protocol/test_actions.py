"""Actions are plain values: what is ordered crosses a pipe, and comes back equal in the answer."""

import dataclasses
import inspect
import pickle
from typing import get_args

import pytest

from edge_agent.protocol import actions
from edge_agent.protocol.actions import Action, Evaluate, Train
from edge_agent.protocol.events import RoundSpec

SPEC = RoundSpec("r", "fedproto", {"classes": ["a", "b"]}, {"lam": 1.0})


def test_every_class_of_the_module_is_an_action():
    classes = {
        c
        for _, c in inspect.getmembers(actions, dataclasses.is_dataclass)
        if c.__module__ == actions.__name__
    }
    assert classes == set(get_args(Action))


@pytest.mark.parametrize(
    "task", [Train("r", 2, 1, "s1", True, False, SPEC), Evaluate("r", 2, 1, "s1", True, SPEC)]
)
def test_a_task_is_the_same_behind_the_pipe(task):
    there = pickle.loads(pickle.dumps(task))
    assert there == task
    assert there.spec == SPEC
    with pytest.raises(dataclasses.FrozenInstanceError):
        there.round = 3
