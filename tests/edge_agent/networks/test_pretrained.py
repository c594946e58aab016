"""Weights from a file or from torchvision: all of the backbone or one line that says what does not
fit.
"""

from __future__ import annotations

import urllib.error
from pathlib import Path
from typing import Any

import pytest
import torch

from edge_agent.networks.net import FleetNet, build_net
from edge_agent.networks.pretrained import freeze, load_pretrained
from edge_agent.networks.torch_env import torchvision
from protofleet.contract import Contract, Input
from protofleet.errors import DataError, FleetError, UsageError

CIFAR = Input("image", (32, 32, 3))


def new(
    name: str, seed: int = 0, embedding: int = 64, classes: str = "abc", input: Input = CIFAR
) -> FleetNet:
    return build_net(Contract("fleet", "run", 0, tuple(classes), input, embedding), name, {}, seed)


def line(kind: type[FleetError], net: FleetNet, name: str, weights: str) -> str:
    with pytest.raises(kind) as caught:
        load_pretrained(net.backbone, name, weights)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["lenet", "resnet8", "mobilenet_v3_small"])
def test_our_own_file_comes_back_without_its_head(name: str, tmp_path: Path) -> None:
    source, target = new(name, seed=1, classes="abcdef"), new(name, seed=2)
    before = target.state_dict()["head.out.weight"].clone()
    torch.save(source.state_dict(), tmp_path / "net.pt")
    load_pretrained(target.backbone, name, str(tmp_path / "net.pt"))
    want, have = source.state_dict(), target.state_dict()
    assert all(torch.equal(want[key], have[key]) for key in want if key.startswith("backbone."))
    assert torch.equal(have["head.out.weight"], before)


@pytest.mark.parametrize("channels", [3, 1], ids=["colour", "grey"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_torchvisions_file_fits_whatever_the_projection(
    name: str, channels: int, tmp_path: Path
) -> None:
    plain = torchvision().models.get_model(name, weights=None)
    torch.save(plain.state_dict(), tmp_path / "plain.pth")
    net = new(name, embedding=30, input=Input("image", (32, 32, channels)))
    load_pretrained(net.backbone, name, str(tmp_path / "plain.pth"))
    theirs, ours = plain.state_dict(), net.state_dict()
    found = [key for key in ours if key.removeprefix("backbone.").partition(".")[2] in theirs]
    assert len(found) >= len(theirs) - 2
    assert all(
        torch.equal(ours[key], theirs[key.removeprefix("backbone.").partition(".")[2]])
        for key in found
    )


def test_what_does_not_fit_is_said_and_nothing_is_loaded(tmp_path: Path) -> None:
    models, net, path = torchvision().models, new("resnet18"), str(tmp_path / "w.pt")
    before = {key: tensor.clone() for key, tensor in net.state_dict().items()}

    torch.save(models.resnet34().state_dict(), path)  # holds every tensor of resnet18, and more
    assert "96 have no place in it, layer1.2.conv1.weight first" in line(
        DataError, net, "resnet18", path
    )

    torch.save(new("lenet").state_dict(), path)
    assert "tensors are missing, bn1.weight first" in line(DataError, net, "resnet18", path)

    wrong = models.resnet18().state_dict()
    wrong["conv1.weight"] = torch.zeros(64, 1, 7, 7)
    torch.save(wrong, path)
    assert line(DataError, net, "resnet18", path) == (
        f"weights {path!r} do not fit backbone 'resnet18': "
        "1 have another shape (conv1.weight is 64×1×7×7, 64×3×7×7 is due)"
    )
    assert all(torch.equal(net.state_dict()[key], before[key]) for key in before)


class Trap:
    """Would run code when unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("unpickled",)


def test_bad_files_are_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, path = new("lenet"), tmp_path / "w.pt"
    assert line(DataError, net, "lenet", str(path)).endswith(
        "cannot be read: No such file or directory"
    )
    assert "neither imagenet nor a .pt or .pth file" in line(UsageError, net, "lenet", "imagnet")
    for content in (b"", b"not a file of torch", b"PK\x03\x04 cut short"):
        path.write_bytes(content)
        assert "not a file of plain tensors" in line(DataError, net, "lenet", str(path))
    torch.save({"model": Trap()}, path)
    assert "not a file of plain tensors" in line(DataError, net, "lenet", str(path))
    torch.save({"epoch": 3, "model": net.state_dict()}, path)
    assert "not a state_dict" in line(DataError, net, "lenet", str(path))
    assert "unpickled" not in capsys.readouterr().out


def test_imagenet_without_a_network_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no route to host")

    torchvision()
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("torch.hub.urlopen", offline)
    words = line(DataError, new("mobilenet_v3_small"), "mobilenet_v3_small", "imagenet")
    assert words.startswith("imagenet weights of mobilenet_v3_small cannot be fetched: ")
    assert words.endswith("connect to the internet, or name a file")
    assert "no imagenet weights for backbone 'lenet'" in line(
        UsageError, new("lenet"), "lenet", "imagenet"
    )


def test_imagenet_weights_go_where_a_file_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = torchvision().models
    plain = models.mobilenet_v3_small().state_dict()
    kind = type(models.get_model_weights("mobilenet_v3_small").DEFAULT)
    monkeypatch.setattr(kind, "get_state_dict", lambda self, **_: plain)
    net = new("mobilenet_v3_small")
    load_pretrained(net.backbone, "mobilenet_v3_small", "imagenet")
    assert torch.equal(
        net.state_dict()["backbone.low.features.0.0.weight"], plain["features.0.0.weight"]
    )


def test_a_frozen_backbone_learns_nothing_and_the_head_does() -> None:
    net = new("lenet")
    freeze(net)
    assert {name.partition(".")[0] for name, w in net.named_parameters() if w.requires_grad} == {
        "head"
    }
