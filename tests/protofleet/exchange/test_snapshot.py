"""What is written to disk comes back to the bit, whatever its agents are called."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.errors import WireError
from protofleet.exchange.snapshot import pack, pack_state, unpack, unpack_state
from protofleet.exchange.state import GlobalState
from protofleet.values.prototypes import Tensors
from tests.protofleet import strategies

some_parts = strategies.parts()


@given(some_parts, st.dictionaries(st.sampled_from(["a", "a/b", "own/a"]), some_parts), some_parts)
def test_a_state_comes_back_exactly(shared, own, server):
    named = [{f"p{i}": part for i, part in enumerate(p.values())} for p in (shared, server)]
    own = {a: {f"p{i}": part for i, part in enumerate(p.values())} for a, p in own.items()}
    state = GlobalState(named[0], own, named[1])
    again = unpack_state(pack_state(state))
    assert (again.shared, again.own, again.server) == (state.shared, state.own, state.server)
    assert again.sha256 == state.sha256


def test_groups_keep_apart_and_empty_ones_leave_no_trace():
    parts = {"t": Tensors({"x": np.array([0.1, 1e-30])})}
    assert unpack(pack({"": parts, "memory": parts, "none": {}})) == {"": parts, "memory": parts}


def test_what_is_larger_than_a_message_may_be_is_no_matter_on_our_own_disk():
    parts = {"t": Tensors({"x": np.zeros(20 << 20)})}  # 80 MiB in float32
    assert unpack(pack({"g": parts})) == {"g": parts}


def test_a_file_that_lost_its_end_is_refused():
    data = pack({"g": {"t": Tensors({"x": np.ones(4)})}})
    for end in range(len(data)):
        with pytest.raises(WireError):
            unpack(data[:end])
