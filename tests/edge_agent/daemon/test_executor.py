"""Actions carried out: what a device writes down and says when an upload is answered."""

import io
from types import SimpleNamespace

import pytest

from edge_agent.daemon.executor import ActionExecutor
from edge_agent.protocol.actions import Birth, Settle
from edge_agent.protocol.machine import DeviceState
from edge_agent.protocol.retry import RetryRules
from edge_agent.store import Store
from edge_agent.worker.ipc import DataSurvey
from protofleet.util.logs import Log


@pytest.mark.parametrize("status", ["refused", "conflict", "late"])
def test_a_refusal_is_written_down_and_said_with_its_reason(tmp_path, status):
    store, lines, settled = Store(tmp_path), io.StringIO(), []
    transfers = SimpleNamespace(settled=lambda run, round: settled.append((run, round)))
    hands = ActionExecutor(store, None, transfers, None, Log(lines), DataSurvey((), 0))
    hands.do(Settle("r", 3, status, "size", "weight holds 5e6", 1), None)
    assert settled == [("r", 3)]
    assert f"upload {status} round=3 reason=size because=weight holds 5e6" in lines.getvalue()
    store.close()


def test_what_computes_is_told_once_it_is_known_and_known_in_the_next_life(tmp_path):
    told = []
    voice = SimpleNamespace(
        birth=lambda run, epoch, seen, device: told.append((run, epoch, device))
    )
    me = DeviceState(RetryRules("one"), connected=True, run="r", epoch=3)
    for _ in range(2):
        store = Store(tmp_path)
        hands = ActionExecutor(store, None, None, voice, Log(io.StringIO()), DataSurvey((), 0))
        hands.do(Birth("r", 3), me)
        for _ in range(2):
            hands.trained_on("mps", me)
        store.close()
    assert told == [("r", 3, ""), ("r", 3, "mps"), ("r", 3, "mps")]
