"""Actions carried out on a real store, and what a device says of them."""

from typing import NamedTuple, get_args

import pytest

from edge_agent.daemon.executor import ActionExecutor
from edge_agent.daemon.masker import Masker
from edge_agent.daemon.transfers import Transfers
from edge_agent.protocol.actions import (
    Action,
    Birth,
    Evaluate,
    Mask,
    OpenRun,
    Report,
    Requeue,
    Send,
    SendChunks,
    Settle,
    Train,
)
from edge_agent.protocol.events import Opened, Receipt, Requeued, RoundSpec
from edge_agent.protocol.machine import DeviceState
from edge_agent.protocol.retry import RetryRules
from edge_agent.records import Checkpoint, DiskFull, OutboxEntry, StoreError
from edge_agent.store import Store
from edge_agent.worker.ipc import DataSurvey, SurveyData, Work
from protofleet.masking.group import Survivors
from tests.edge_agent.fakes import BOOT, TOPICS, FakeLink, FakeSupervisor, log, outbound_to

ME = DeviceState(RetryRules("a"), connected=True, run="r", epoch=3)
TASK = Train("r", 2, 1, "s1", False, False, RoundSpec("r", "fedproto", {}, {}))
ONE_OF_EACH = (
    Birth("r", 3),
    OpenRun("r", 3),
    TASK,
    Evaluate("r", 2, 1, "s1", False, TASK.spec),
    Send("r", 1, 3),
    SendChunks("r", 1, "d", ((0, 1),)),
    Mask("r", 1, Survivors(bytes(16), ("a", "b", "c"))),
    Settle("r", 1, "accepted", "", "", 3),
    Requeue("r", 1),
    Report("r", 1, "window"),
)


class Device(NamedTuple):
    """An executor, and what it works on."""

    executor: ActionExecutor
    store: Store
    link: FakeLink
    supervisor: FakeSupervisor
    folder: object
    lines: object

    def trains(self, round):
        body = b"\xa0"
        upload = OutboxEntry("r", round, "0" * 64, "fedproto", f"d{round}", body, BOOT, round)
        checkpoint = Checkpoint(round, round - 1, "0" * 64, b"weights")
        self.store.commit_round(BOOT, "r", checkpoint, upload, float(round))


def executor_on(store, folder):
    link, supervisor, (words, lines) = FakeLink(), FakeSupervisor(), log()
    outbound = outbound_to(link, folder)
    transfers = Transfers(TOPICS, "a", folder / "spool", outbound, lambda: 0.0, 1 << 20)
    survey = DataSurvey(("x",), 4)
    masker = Masker("a", store, words)
    executor = ActionExecutor(store, supervisor, transfers, outbound, words, survey, masker)
    return Device(executor, store, link, supervisor, folder, lines)


@pytest.fixture
def device(tmp_path):
    store = Store(tmp_path)
    store.take_over(BOOT)
    yield executor_on(store, tmp_path)
    store.close()


def test_there_is_one_of_each_action():
    assert [type(action) for action in ONE_OF_EACH] == list(get_args(Action))


@pytest.mark.parametrize("action", ONE_OF_EACH, ids=lambda action: type(action).__name__)
def test_every_action_leaves_a_trace(device, action):
    device.trains(1)
    if isinstance(action, Requeue):
        device.store.settle("r", 1, "accepted", "", "", 3)
    before = (device.store.counts("r"), len(device.link.published), list(device.supervisor.orders))
    outcome = device.executor.do(action, ME)
    after = (device.store.counts("r"), len(device.link.published), list(device.supervisor.orders))
    # Chunks of an upload that went whole are nobody's, and so is the word of a group in a run
    # without masks: the actions without an effect here.
    assert isinstance(action, SendChunks | Mask) or outcome is not None or before != after


def test_an_order_carries_the_task_as_it_is_and_how_often_the_samples_changed(device):
    device.executor.do(TASK, ME)
    device.executor.survey_again()
    device.executor.do(TASK, ME)
    assert device.supervisor.orders == [Work(TASK, 0), SurveyData(), Work(TASK, 1)]


def test_joining_a_run_tells_how_far_the_store_is(device):
    assert device.executor.do(OpenRun("r", 3), ME) == Opened("r", 0, -1, ())
    device.trains(1)
    device.trains(2)
    device.store.settle("r", 1, "accepted", "", "", 3)
    assert device.executor.do(OpenRun("r", 3), ME) == Opened("r", 2, 1, (2,))


def test_an_upload_goes_out_as_it_was_trained_and_waits_where_the_link_is_full(device):
    device.trains(1)
    device.link.full = True
    assert device.executor.do(Send("r", 1, 3), ME) is None
    assert "upload waits: the link is full" in device.lines.getvalue()
    device.link.full = False
    for _ in range(2):
        assert device.executor.do(Send("r", 1, 3), ME) is None
    assert device.link.kinds() == ["d/a/up/1"] * 2
    first, again = device.link.messages()
    assert first == again
    assert (first.envelope.epoch, first.envelope.base, first.envelope.boot) == (3, "0" * 64, BOOT)


def test_an_upload_without_bytes_is_answered_in_the_coordinators_place(device):
    receipt = device.executor.do(Send("r", 1, 3), ME)
    words = "its bytes are no longer in the outbox"
    assert receipt == Receipt("r", 3, 1, "refused", "lost", words)
    assert device.link.published == []


def test_an_upload_waits_again_if_its_bytes_are_here(device):
    device.trains(1)
    device.store.settle("r", 1, "accepted", "", "", 3)
    assert device.executor.do(Requeue("r", 1), ME) == Requeued("r", 1)
    assert device.store.waiting("r") == [1]
    assert device.executor.do(Requeue("r", 7), ME) is None


@pytest.mark.parametrize("status", ["refused", "conflict", "late"])
def test_a_refusal_is_written_down_and_said_with_its_reason(device, status):
    device.trains(3)
    device.executor.do(Settle("r", 3, status, "size", "weight holds 5e6", 1), ME)
    assert device.store.counts("r") == {status: 1}
    line = f"upload {status} round=3 reason=size because=weight holds 5e6"
    assert line in device.lines.getvalue()


def test_what_computes_is_told_once_it_is_known_and_known_in_the_next_life(tmp_path):
    told = []
    for _ in range(2):
        store = Store(tmp_path)
        device = executor_on(store, tmp_path)
        device.executor.do(Birth("r", 3), ME)
        for _ in range(2):
            device.executor.trained_on("mps", ME)
        told += [message.body.get("device", "") for message in device.link.messages()]
        store.close()
    assert told == ["", "mps", "mps"]


def test_a_full_disk_is_survived_and_remembered_and_nothing_else_is(device):
    def fails(error):
        raise error

    assert device.executor.keep(lambda: 5) == 5
    assert not device.executor.lost_writes
    assert device.executor.keep(lambda: fails(DiskFull("agent.db: the disk is full"))) is None
    assert device.executor.lost_writes
    with pytest.raises(StoreError, match="is damaged"):
        device.executor.keep(lambda: fails(StoreError("agent.db is damaged")))
