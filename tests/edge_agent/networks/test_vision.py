"""torchvision can be imported whatever it was built for, and only what is missing is declared."""

from __future__ import annotations

import subprocess
import sys

import pytest

from edge_agent.networks import vision
from protofleet.errors import UsageError

AFRESH = """
import sys, torch
from edge_agent.networks.vision import torchvision
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
    import torch

    vision.torchvision()  # healthy from here on, by nature or by cure
    monkeypatch.setattr(torch.library, "define", lambda *_: pytest.fail("declared without need"))
    assert vision.torchvision() is vision.torchvision()


def test_other_faults_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise RuntimeError("out of something")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(RuntimeError, match="out of something"):
        vision.torchvision()


def test_none_installed_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(
        UsageError, match=r"^torchvision is not installed; pip install 'protofleet\[train\]'$"
    ):
        vision.torchvision()
