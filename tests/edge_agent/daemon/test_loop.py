"""Daemons whose link is the test's, and real ones on a real broker with a coordinator that does
what the test says.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from edge_agent.daemon.loop import Daemon, DaemonDeps
from edge_agent.protocol.actions import Train
from edge_agent.protocol.retry import RetryRules
from edge_agent.records import Checkpoint, DiskFull, OutboxEntry
from edge_agent.store import Store
from edge_agent.training.context import settle
from edge_agent.worker.ipc import DataSurvey, WorkerEnded
from protofleet import wire
from protofleet.contract import Contract, Input
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.mosquitto import Listening
from protofleet.mqtt.broker.run import running_broker
from protofleet.mqtt.link import events
from protofleet.settings.fields import to_plain
from protofleet.util.systemd import Notifier
from simulators.run import rounds
from simulators.run.setup import prepare
from simulators.run.workers import upload_message
from tests.edge_agent.fakes import BOOT, TOPICS, FakeLink, FakeSupervisor, config, log
from tests.edge_agent.scripted import ROOT, Device, Scripted, rows_file, until

pytestmark = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
BASE = "0" * 64
CONTRACT = to_plain(Contract("f", "r", 0, ("a", "b"), Input("vector", (3,)), 4))
CONNECTED = events.Connected(False, "5")


class Played:
    """A daemon whose link, training process and clock are the test's."""

    def __init__(self, folder):
        self.store, self.link, self.supervisor = Store(folder), FakeLink(), FakeSupervisor()
        self.store.take_over(BOOT)
        words, self.lines = log()
        self.now = 0.0
        deps = DaemonDeps(
            config(folder),
            self.link,
            self.store,
            self.supervisor,
            words,
            Notifier({}),
            BOOT,
            retry=True,
            clock=lambda: self.now,
        )
        self.daemon = Daemon(deps, RetryRules("a"), DataSurvey(("a",), 4))
        self.link.idle = self.daemon.stop

    def commit(self, round):
        upload = OutboxEntry("r", round, BASE, "fedproto", f"d{round}", b"\xa0", BOOT, round)
        self.store.commit_round(BOOT, "r", Checkpoint(round, round - 1, BASE, b""), upload, 0.0)

    def live(self, *turns):
        """One turn of the loop for each batch of events or thing to do, and then leave."""
        self.link.turns = list(turns)
        self.daemon.run()


@pytest.fixture
def played(tmp_path):
    device = Played(tmp_path)
    yield device
    device.store.close()


def arrival(topic, t, body, **envelope):
    message = wire.Envelope(t, "f", "r", 1, method="fedproto", base=BASE, **envelope)
    data = wire.enclose(message, b"\xa0") if body is None else wire.encode(message, body)
    return events.Arrival(topic, data, 1, True, events.Token(1, 1))


ONLINE = arrival(TOPICS.coordinator_state, "state", {"online": True, "mode": "sync"})
STATE = arrival(TOPICS.shared_state, "global", None, round=0)
ROUND = arrival(
    TOPICS.round,
    "round",
    {"phase": "open", "contract": CONTRACT, "participants": None, "base_round": 0, "own": False},
    round=1,
)


def test_what_the_store_answers_to_joining_a_run_is_done_before_the_birth(played):
    played.commit(1)
    played.live([CONNECTED, ONLINE])
    assert played.link.kinds() == ["d/a/state", "d/a/up/1", "d/a/state", "d/a/state"]
    first, _, second, last = played.link.messages()
    assert [first.envelope.run, second.envelope.run] == [None, "r"]
    assert last.body == {"online": False, "reason": "left"}


def test_a_device_that_hears_no_coordinator_says_so_once(played):
    def waits():
        played.now += 6.0

    played.live([CONNECTED], waits, waits, waits, waits)
    assert played.lines.getvalue().count("no coordinator speaks in fleet 'f'") == 1


def test_a_message_of_no_use_is_acknowledged_and_said(played):
    junk = events.Arrival(TOPICS.round, b"junk", 1, True, events.Token(1, 2))
    foreign = events.Arrival("elsewhere", b"", 1, True, events.Token(1, 3))
    played.live([CONNECTED, junk, foreign])
    assert played.link.acknowledged == [junk, foreign]
    assert played.lines.getvalue().count("a message that cannot be used") == 1


def test_a_state_that_found_no_room_is_acknowledged_and_asked_for_once_more(played, monkeypatch):
    def full(kind, state):
        raise DiskFull("agent.db: the disk is full")

    monkeypatch.setattr(played.store, "hold", full)
    asked_for, orders = [], []

    def room_again():
        asked_for.extend(played.link.subscribed)
        orders.extend(played.supervisor.orders)
        monkeypatch.undo()

    played.live([CONNECTED, ONLINE, STATE, ROUND], room_again, [STATE])
    assert played.link.acknowledged == [ONLINE, STATE, ROUND, STATE]
    states = [(TOPICS.shared_state, 1), (TOPICS.own_state("a"), 1)]
    assert asked_for == [*TOPICS.for_device("a"), *states]
    assert orders == []
    assert [type(order.task) for order in played.supervisor.orders] == [Train]


@pytest.mark.parametrize("committed", [True, False])
def test_a_training_process_that_dies_after_its_commit_has_trained(played, committed):
    def dies():
        if committed:
            played.commit(1)
        played.supervisor.ready = [WorkerEnded("the training process was killed")]

    def waits():
        played.now = 1000.0

    played.live([CONNECTED, ONLINE, STATE, ROUND], dies, waits)
    orders = len(played.supervisor.orders)
    assert (played.daemon.me.trained, orders) == ((1, 1) if committed else (0, 2))
    assert ("d/a/up/1" in played.link.kinds()) == committed


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker"), prefer="mosquitto") as broker:
        yield broker.address.port


@pytest.fixture
def stage(tmp_path, port):
    """Coordinators and devices that are gone when the test is."""
    cast = []

    def coordinator(setup, fleet, at=port, **more):
        contract = replace(setup.contract, fleet=fleet)
        cast.append(Scripted(at, contract, setup.recipe.name, setup.hyper, **more))
        return cast[-1]

    def device(agent, *words, at=port, **more):
        cast.append(Device(tmp_path, agent, *words, port=at, **more))
        return cast[-1]

    yield coordinator, device
    for each in cast:
        if isinstance(each, Device) and each.process.poll() is None:
            each.process.kill()
            each.process.wait()
        elif isinstance(each, Scripted):
            each.stop()


def first_upload(setup, shard, coordinator):
    """What the laboratory's device sends in round 1."""
    settle(setup.contract.numerics)
    agent = setup.agent(shard, setup.context())
    agent.receive(0, coordinator.state.shared, coordinator.state.for_agent(shard.agent))
    return wire.decode(upload_message(setup, shard.agent, 1, coordinator.state.base, agent.work(1)))


def longer(config, epochs):
    return prepare(replace(config, training=replace(config.training, local_epochs=epochs)))


def test_devices_join_train_measure_and_leave_and_end_in_the_laboratorys_state(
    small_lab, stage, tmp_path
):
    coordinator_of, device_of = stage
    setup = prepare(small_lab(agents=2, rounds=2))
    coordinator = coordinator_of(setup, "one")
    shards = setup.partition.shards
    devices = {
        s.agent: device_of(s.agent, *rows_file(setup, s, tmp_path), fleet="one") for s in shards
    }
    coordinator.publish_state()
    for round in (1, 2):
        coordinator.open(round)
        uploads = [coordinator.upload(name, round) for name in devices]
        for upload in uploads:
            coordinator.receipt(upload)
        coordinator.fuse(round, uploads)
        coordinator.publish_state()
    coordinator.open(2, phase="done")
    assert (
        coordinator.state.sha256
        == rounds.run(setup, rounds.LabOptions(), lambda row: None).state.sha256
    )

    def measured():
        found = [
            m.body
            for m in coordinator.messages("report")
            if m.envelope.round == 2 and "accuracy" in m.body
        ]
        return found if len(found) == 2 else None

    for body in until(measured, "both to measure the last state"):
        assert (
            body["accuracy"].keys()
            == body["n"].keys()
            == {
                "head",
                "head_own_classes",
                "prototype",
                "prototype_all_classes",
            }
        )
    births = [m for m in coordinator.messages("state") if m.body["online"]]
    # The first one does not count samples: nobody has said yet whether the fleet has a budget.
    counted = {m.envelope.agent: m.body["samples"] for m in births if m.envelope.run}
    assert counted == {s.agent: len(s.train) for s in shards}
    assert not any("samples" in m.body for m in births if not m.envelope.run)
    assert all(m.body.get("device", "cpu") == "cpu" for m in births)
    assert {m.envelope.agent for m in births if "device" in m.body} == devices.keys()
    one = devices["agent-00"]
    words = [sys.executable, "-m", "edge_agent", "status", *one.words]
    shown = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "trained   up to round 2" in shown
    assert "outbox    2 accepted" in shown
    assert "torch" not in Path(f"/proc/{one.process.pid}/maps").read_text()
    assert [device.stop() for device in devices.values()] == [0, 0]
    until(
        lambda: (
            len([m for m in coordinator.messages("state") if m.body.get("reason") == "left"]) == 2
        ),
        "farewells",
    )


def test_a_daemon_killed_in_training_comes_back_to_the_same_upload(small_lab, stage, tmp_path):
    coordinator_of, device_of = stage
    setup = longer(small_lab(agents=2), 15)
    shard = setup.partition.shards[0]
    coordinator = coordinator_of(setup, "killed")
    want = first_upload(setup, shard, coordinator)
    coordinator.publish_state()
    coordinator.open(1)
    device = device_of(shard.agent, *rows_file(setup, shard, tmp_path), fleet="killed")
    child = until(
        lambda: device.status().get("doing") == "training" and device.status()["training_pid"],
        "training",
    )
    until(
        lambda: "libtorch" in Path(f"/proc/{child}/maps").read_text(),
        "torch in the training process",
    )
    device.process.send_signal(signal.SIGKILL)
    device.wait()
    until(lambda: not Path(f"/proc/{child}").exists(), "the training process to follow its daemon")
    store = Store(device.folder / "kept")
    assert (store.waiting("lab"), store.checkpoint("lab")) == ([], None)
    store.close()
    until(
        lambda: any(m.body.get("reason") == "lost" for m in coordinator.messages("state")),
        "the last will",
    )
    device.start()
    assert coordinator.upload(shard.agent, 1).digest == want.digest

    # It has no receipt yet: another life sends the very same bytes again, and trains nothing anew.
    device.process.send_signal(signal.SIGKILL)
    device.wait()
    sent = len(coordinator.messages("upload"))
    device.start()
    until(lambda: len(coordinator.messages("upload")) > sent, "the upload once more")
    first, *others = [payload for topic, payload in coordinator.heard if "/up/1" in topic]
    assert set(others) == {first}
    coordinator.receipt(coordinator.messages("upload")[-1])
    until(lambda: "upload accepted" in device.log, "the receipt to be written down")
    assert device.log.count("trained round=1") == 1


def test_what_was_trained_while_the_broker_was_gone_is_delivered_when_it_is_back(
    small_lab, stage, tmp_path
):
    coordinator_of, device_of = stage
    setup = longer(small_lab(agents=2), 10)
    shard = setup.partition.shards[0]
    with running_broker(tmp_path / "first", prefer="mosquitto") as broker:
        at = broker.address.port
        coordinator = coordinator_of(setup, "offline", at=at)
        want = first_upload(setup, shard, coordinator)
        device = device_of(shard.agent, *rows_file(setup, shard, tmp_path), fleet="offline", at=at)
        coordinator.publish_state()
        coordinator.open(1)
        until(lambda: device.status().get("doing") == "training", "training")
        coordinator.stop()
    until(
        lambda: device.status()["trained"] == 1 and not device.status()["connected"],
        "training without a broker",
    )
    with running_broker(tmp_path / "second", Listening(port=at), prefer="mosquitto"):
        again = coordinator_of(setup, "offline", at=at)
        assert again.upload(shard.agent, 1).digest == want.digest
        device.stop()


def test_large_states_and_uploads_travel_in_chunks(small_lab, stage, tmp_path):
    coordinator_of, device_of = stage
    setup = prepare(small_lab("fedavg", agents=2))
    shard = setup.partition.shards[0]
    coordinator = coordinator_of(setup, "large", chunk=1024)
    want = first_upload(setup, shard, coordinator)
    coordinator.publish_state()
    device = device_of(shard.agent, *rows_file(setup, shard, tmp_path), fleet="large")
    coordinator.open(1, packet=4096)
    upload = coordinator.large_upload(shard.agent, 1, tmp_path)
    assert (upload.envelope.t, upload.digest) == ("upload", want.digest)
    slips = len(coordinator.messages("upload"))
    until(
        lambda: len(coordinator.messages("upload")) > slips,
        "the slip once more, now that all is sent",
    )
    coordinator.receipt(upload)
    coordinator.fuse(1, [upload])
    coordinator.publish_state()
    coordinator.open(2, packet=4096)
    coordinator.serve_chunks(shard.agent)
    second = coordinator.upload(shard.agent, 2)
    assert second.envelope.base == coordinator.state.base
    assert device.stop() == 0
    assert list((device.folder / "kept" / "spool").iterdir()) == []


def test_an_unreachable_broker_is_waited_for_and_sigterm_is_prompt(stage):
    _, device_of = stage
    device = device_of("alone", "--data", "digits", at=1)
    until(lambda: "no connection, trying on" in device.log, "a word about the broker")
    began = time.monotonic()
    assert device.stop() == 0
    assert time.monotonic() - began < 10
    assert device.log.count("no connection") == 1


def test_a_wrong_password_is_one_line_and_the_end(tmp_path, stage):
    _, device_of = stage
    with running_broker(
        tmp_path / "closed", users={"camera": "right"}, fleet="lab", prefer="mosquitto"
    ) as broker:
        secret = tmp_path / "secret"
        secret.write_text("camera:wrong-word\n")
        device = device_of(
            "camera", "--data", "digits", "--credentials", str(secret), at=broker.address.port
        )
        assert device.wait(30) == 1
        last = device.log.splitlines()[-1]
        assert last.startswith("error: mqtt://127.0.0.1:")
        assert "refuses this device" in last
        assert "wrong-word" not in device.log


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (
            ("--data", "no/such/folder"),
            1,
            "error: data set 'no/such/folder': neither a known name nor",
        ),
        ((), 2, "error: data.source is not set"),
        (
            ("--data", "digits", "--set", "limits.nicee=3"),
            2,
            "error: unknown setting 'limits.nicee'",
        ),
        (
            ("--data", "digits", "--broker", "http://x"),
            2,
            "error: broker URL: scheme 'http' is not known",
        ),
        (("--data", "digits", "--fleet", "a/b"), 2, "error: fleet name 'a/b' cannot be used"),
        (("--config", "none.toml"), 2, "error: none.toml: No such file or directory"),
    ],
)
def test_what_is_wrong_with_the_settings_is_one_line(tmp_path, words, code, line):
    command = [sys.executable, "-m", "edge_agent", "run", "--data-dir", str(tmp_path), *words]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PROTOFLEET")} | {
        "PYTHONPATH": str(ROOT)
    }
    found = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environ
    )
    assert found.returncode == code
    assert found.stderr.startswith(line)
    assert found.stderr.count("\n") == 1
