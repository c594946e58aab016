"""A state's hashes are of its content: what leaves no trace on disk or wire does not count."""

from dataclasses import replace

import numpy as np

from protofleet.exchange.state import GlobalState
from protofleet.values.prototypes import Prototypes, Tensors

ONE = {"p": Prototypes([0], [[1.0, 2.0]])}
TWO = {"p": Prototypes([0], [[1.0, 2.5]])}


def test_the_base_is_of_the_shared_part_alone_and_the_hash_of_everything():
    state = GlobalState(ONE, {"a": ONE}, {"s": Tensors({"x": np.ones(2)})})
    same_base = [replace(state, own={"a": TWO}), replace(state, server={})]
    assert {other.base for other in same_base} == {state.base}
    assert len({state.sha256, *(other.sha256 for other in same_base)}) == 3
    assert replace(state, shared=TWO).base != state.base


def test_order_does_not_count_and_whose_part_it_is_does():
    ab = GlobalState(ONE, {"a": ONE, "b": TWO})
    assert GlobalState(ONE, {"b": TWO, "a": ONE}).sha256 == ab.sha256
    assert GlobalState(ONE, {"a": TWO, "b": ONE}).sha256 != ab.sha256


def test_an_own_part_without_parts_is_none():
    assert GlobalState(ONE, {"a": {}}).sha256 == GlobalState(ONE).sha256
    assert GlobalState(ONE, {"a": {}}).for_agent("a") == {}
