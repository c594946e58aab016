"""Actions carried out: what a device writes down and says when an upload is answered."""

import io
from types import SimpleNamespace

import pytest

from edge_agent.hands import Hands
from edge_agent.happenings import Settle
from edge_agent.orders import Seen
from edge_agent.store import Store
from protofleet.logs import Log


@pytest.mark.parametrize("status", ["refused", "conflict", "late"])
def test_a_refusal_is_written_down_and_said_with_its_reason(tmp_path, status):
    store, lines, settled = Store(tmp_path), io.StringIO(), []
    transfers = SimpleNamespace(settled=lambda run, round: settled.append((run, round)))
    hands = Hands(store, None, transfers, None, Log(lines), {}, Seen((), 0))
    hands.do(Settle("r", 3, status, "size", "weight holds 5e6", 1), None)
    assert settled == [("r", 3)]
    assert f"upload {status} round=3 reason=size because=weight holds 5e6" in lines.getvalue()
    store.close()
