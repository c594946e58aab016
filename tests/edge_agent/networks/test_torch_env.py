"""torchvision can be imported whatever it was built for, and only what is missing is declared; a
device is what the machine has.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from edge_agent.networks import torch_env
from edge_agent.networks.torch_env import resolve_device
from protofleet.errors import UsageError

AFRESH = """
import sys, torch
from edge_agent.networks.torch_env import torchvision
module = torchvision()
assert module is sys.modules["torchvision"] and torchvision() is module
import torchvision.transforms, torchvision.datasets
print(module.models.resnet18.__name__)
"""


def test_torchvision_imports_in_a_fresh_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFRESH], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("resnet18\n", 0), done.stderr


def test_a_healthy_torchvision_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_env.torchvision()  # healthy from here on, by nature or by cure
    monkeypatch.setattr(torch.library, "define", lambda *_: pytest.fail("declared without need"))
    assert torch_env.torchvision() is torch_env.torchvision()


def test_other_faults_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise RuntimeError("out of something")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(RuntimeError, match="out of something"):
        torch_env.torchvision()


def test_none_installed_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(
        UsageError, match=r"^torchvision is not installed; pip install 'protofleet\[train\]'$"
    ):
        torch_env.torchvision()


def test_the_device_is_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def machine(cuda: bool, mps: bool) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    machine(cuda=True, mps=False)
    assert (resolve_device("auto"), resolve_device("cpu"), resolve_device("cuda")) == (
        "cuda",
        "cpu",
        "cuda",
    )
    machine(cuda=False, mps=True)
    assert resolve_device("auto") == "mps"
    machine(cuda=False, mps=False)
    assert resolve_device("auto") == "cpu"
    with pytest.raises(
        UsageError, match=r"^device 'cuda': this machine.* has none; take auto or cpu$"
    ):
        resolve_device("cuda")
    with pytest.raises(
        UsageError, match=r"^device 'tpu' is not known; known: auto, cuda, mps, cpu$"
    ):
        resolve_device("tpu")
