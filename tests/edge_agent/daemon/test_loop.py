"""Real daemons on a real broker, with a coordinator that does what the test says."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from edge_agent.store import Store
from edge_agent.training.context import settle
from protofleet import wire
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.mosquitto import Listening
from protofleet.mqtt.broker.run import running_broker
from simulators.run import rounds
from simulators.run.setup import prepare
from simulators.run.workers import upload_message
from tests.edge_agent.scripted import ROOT, Device, Scripted, rows_file, until

pytestmark = pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")


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
    lost = device_of("stranger", "--data", "digits", fleet="nobody-speaks-here")
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
    assert {m.envelope.agent: m.body["samples"] for m in births} == {
        s.agent: len(s.train) for s in shards
    }
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
    until(
        lambda: "no coordinator speaks in fleet 'nobody-speaks-here'" in lost.log,
        "a word about the fleet",
    )


def test_a_daemon_killed_in_training_comes_back_to_the_same_upload(small_lab, stage, tmp_path):
    coordinator_of, device_of = stage
    setup = longer(small_lab(agents=2), 60)
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
    setup = longer(small_lab(agents=2), 30)
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
