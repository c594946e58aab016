"""The commands of a device, as a person calls them."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from protofleet.contract import Input
from protofleet.settings.fields import from_plain

ROOT = Path(__file__).parents[3]
# What an idle daemon may cost: no tensors, no decoders of images, no learning library.
HEAVY = {
    "torch",
    "torchvision",
    "sklearn",
    "scipy",
    "PIL",
    "onnxruntime",
    "onnx",
    "matplotlib",
    "rich",
}


@pytest.fixture
def call(tmp_path):
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PROTOFLEET")} | {
        "PYTHONPATH": str(ROOT)
    }

    def made(*words):
        command = [sys.executable, "-m", "edge_agent", *words]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environ
        )

    return made


def test_init_writes_settings_that_check_accepts(call, tmp_path):
    assert (
        call("init", "--id", "camera-07", "--fleet", "orchard", "--data", "digits").returncode == 0
    )
    written = (tmp_path / "agent.toml").read_text()
    assert tomllib.loads(written)["agent"]["id"] == "camera-07"
    found = call("config", "check")
    assert found.returncode == 0
    assert "device   camera-07 in fleet orchard" in found.stdout
    assert "learns   1346 samples of 10 classes: 0, 1, 2" in found.stdout
    again = call("init")
    assert (again.returncode, again.stderr) == (
        2,
        "error: agent.toml is already there; --force writes over it (usage)\n",
    )
    assert call("init", "--force").returncode == 0


def test_check_names_what_is_wrong(call, tmp_path):
    (tmp_path / "agent.toml").write_text('[broker]\nurl = "mqtt://x"\ncredential = "f"\n')
    found = call("config", "check")
    assert found.returncode == 2
    assert found.stderr.startswith(
        "error: unknown setting 'broker.credential'; did you mean 'credentials'?"
    )


def test_contract_prints_what_the_coordinator_is_to_be_told(call):
    found = tomllib.loads(call("contract", "--data", "digits").stdout)["contract"]
    assert found["classes"] == list("0123456789")
    assert from_plain(Input, found["input"]) == Input("image", (8, 8, 1), (0.5,), (0.5,))


def test_status_of_a_device_that_never_ran_is_one_line(call):
    found = call("status", "--data-dir", "nowhere", "--json")
    assert (found.returncode, found.stderr.count("\n")) == (1, 1)
    assert "no device has run here yet" in found.stderr


def test_the_idle_daemon_loads_nothing_heavy():
    code = "import edge_agent.daemon.start, sys; print(' '.join({m.partition('.')[0] for m in sys.modules}))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not set(found.stdout.split()) & HEAVY


def test_status_reads_what_a_daemon_left(call, tmp_path):
    from edge_agent.daemon.status import Status, write
    from edge_agent.store import Store

    Store(tmp_path / "kept").close()
    write(
        tmp_path / "kept",
        Status("camera", "orchard", "mqtt://x:1883", 2**22 + 1, trained=3, run="r"),
        "now",
    )
    found = call("status", "--data-dir", "kept", "--json")
    told = json.loads(found.stdout)
    assert (told["running"], told["agent"], told["outbox"], told["trained"]) == (
        False,
        "camera",
        {},
        0,
    )
    assert "not running" in call("status", "--data-dir", "kept").stdout
