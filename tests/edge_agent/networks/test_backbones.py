"""The named backbones: the papers' sizes to the last weight, and torchvision's networks unchanged
by the cut.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from edge_agent.networks import backbones
from edge_agent.networks.torch_env import torchvision
from protofleet.contract import Input
from protofleet.errors import UsageError

CIFAR = Input("image", (32, 32, 3))
MNIST = Input("image", (28, 28, 1))
DIGITS = Input("image", (8, 8, 1))
POINTS = Input("vector", (2,))
SERIES = Input("series", (50, 3))

# name, input, weights with a head for ten classes, size of u, size of z
PAPERS = [
    ("lenet", CIFAR, 62_006, 400, 120),
    ("cnn4", MNIST, 582_026, 32 * 12 * 12, 512),
    ("cnn-mnist", MNIST, 21_840, 320, 50),
    ("cnn-fashion", MNIST, 29_034, 3_136, 1_568),
    ("resnet8", CIFAR, 78_042, 32 * 16 * 16, 64),
    ("mlp", DIGITS, 64 * 128 + 128 + 128 * 64 + 64 + 650, 128, 64),
    ("mlp-small", DIGITS, 64 * 64 + 64 + 64 * 32 + 32 + 330, 64, 32),
    ("mlp-wide", SERIES, 150 * 256 + 256 + 256 * 128 + 128 + 1_290, 256, 128),
    ("mlp-mnist", MNIST, 798_474, 512, 256),
    ("mlp5", POINTS, 300 + 2 * 10_100 + 6_464 + 650, 100, 64),
    ("mlp-spiral", POINTS, 300 + 2 * 10_100 + 202 + 30, 100, 2),
]
SAMPLE = ["resnet18", "mobilenet_v3_small", "shufflenet_v2_x1_0", "efficientnet_b0"]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small tensors on a busy machine: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def batch(input: Input, n: int = 4) -> Tensor:
    shape = (input.shape[2], *input.shape[:2]) if input.kind == "image" else input.shape
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(0))


def trains(name: str, input: Input) -> tuple[backbones.Stages, Tensor, Tensor]:
    """Forward and backward in training mode; every weight has a finite gradient."""
    stages = backbones.build(name, input)
    u = stages.low(batch(input))
    z = stages.high(u)
    z.square().sum().backward()
    for weight in (*stages.low.parameters(), *stages.high.parameters()):
        assert weight.grad is not None
        assert torch.isfinite(weight.grad).all()
    return stages, u, z


@pytest.mark.parametrize(
    ("name", "input", "weights", "low", "high"), PAPERS, ids=[p[0] for p in PAPERS]
)
def test_our_networks_have_the_papers_sizes(
    name: str, input: Input, weights: int, low: int, high: int
) -> None:
    stages, u, z = trains(name, input)
    assert u.flatten(1).shape == (4, low)
    assert z.shape == (4, high)
    assert stages.dim == high
    widths = [high, *stages.head_hidden, 10]
    head = sum(of * to + to for of, to in itertools.pairwise(widths))
    assert (
        sum(w.numel() for w in (*stages.low.parameters(), *stages.high.parameters())) + head
        == weights
    )


def test_the_papers_table_is_the_whole_table() -> None:
    theirs = torchvision().models.list_models()
    assert {*(p[0] for p in PAPERS), "fixed"} == {
        name for name in backbones.names() if name not in theirs
    }


def test_only_the_spiral_embedding_is_signed() -> None:
    torch.manual_seed(1)
    for name in ("mlp", "mlp5", "mlp-spiral"):
        stages = backbones.build(name, POINTS)
        z = stages.high(stages.low(batch(POINTS, 50)))
        assert bool((z < 0).any()) == (name == "mlp-spiral")


@pytest.mark.parametrize("input", [CIFAR, Input("image", (32, 32, 1))], ids=["colour", "grey"])
@pytest.mark.parametrize("name", SAMPLE)
def test_torchvision_networks_train_on_small_images(name: str, input: Input) -> None:
    stages, u, z = trains(name, input)
    assert u.ndim == 4
    assert z.shape == (4, stages.dim)


@pytest.mark.parametrize(
    "name", [*SAMPLE, "mobilenet_v2", "densenet121", "mnasnet0_5", "regnet_y_400mf"]
)
def test_the_cut_changes_nothing(name: str) -> None:
    """Low, high and the plain network's last layer give what the plain network gives, weight for
    weight.
    """
    plain = torchvision().models.get_model(name, weights=None)
    stages = backbones.build(name, CIFAR)
    ours = nn.Sequential(stages.low, stages.high)
    theirs = plain.state_dict()
    ours.load_state_dict({key: theirs[key.partition(".")[2]] for key in ours.state_dict()})
    last = [m for m in plain.modules() if isinstance(m, nn.Linear)][-1]
    with torch.no_grad():
        torch.testing.assert_close(
            last(ours.eval()(batch(CIFAR))), plain.eval()(batch(CIFAR)), rtol=1e-3, atol=1e-4
        )


def test_the_embedding_has_no_dropout_on_it() -> None:
    stages = backbones.build("mobilenet_v3_small", CIFAR)
    assert stages.head_dropout == 0.2
    assert not any(isinstance(m, nn.Dropout) for m in stages.high.modules())


@pytest.mark.parametrize(
    ("input", "name"),
    [
        (DIGITS, "mlp"),
        (POINTS, "mlp"),
        (SERIES, "mlp"),
        (MNIST, "cnn-mnist"),
        (CIFAR, "lenet"),
        (Input("image", (28, 28, 3)), "lenet"),
        (Input("image", (16, 16, 3)), "lenet"),
        (Input("image", (224, 224, 3)), "resnet8"),
    ],
)
def test_the_default_fits_the_input(input: Input, name: str) -> None:
    assert backbones.default_for(input) == name
    backbones.build(name, input)


@pytest.mark.parametrize("input", [CIFAR, MNIST, DIGITS, POINTS, SERIES])
def test_a_mixed_fleet_rotates_through_four_that_fit(input: Input) -> None:
    four = backbones.rotation("mixed", input)
    assert len(set(four)) == len(four) == 4
    for name in four:
        backbones.build(name, input)


def test_a_fleet_may_name_its_rotation() -> None:
    named = backbones.rotation("resnet8, mobilenet_v2,", CIFAR)
    assert named == ("resnet8", "mobilenet_v2")
    assert backbones.rotation("lenet", CIFAR) == ("lenet",)


@pytest.mark.parametrize(
    ("name", "input", "words"),
    [
        ("resnet-18", CIFAR, "no backbone is called 'resnet-18'; did you mean 'resnet18'?"),
        ("googlenet", CIFAR, "no backbone is called 'googlenet'"),
        ("lenet", POINTS, "backbone 'lenet' takes images, the fleet's input is a vector; take mlp"),
        (
            "lenet",
            DIGITS,
            "backbone 'lenet' does not fit inputs of 8×8×1; take another (mlp fits all)",
        ),
        ("alexnet", CIFAR, "backbone 'alexnet' does not fit inputs of 32×32×3"),
    ],
)
def test_a_wrong_name_is_one_clear_line(name: str, input: Input, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        backbones.build(name, input)
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def half(input: Input) -> nn.Module:
    """A network of somebody's own."""
    return nn.Sequential(nn.Flatten(), nn.Linear(input.shape[0] * input.shape[1], 6), nn.ReLU())


def test_a_network_of_ones_own_is_named_by_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    grey = Input("image", (8, 8, 1))
    monkeypatch.setitem(sys.modules, "nets", SimpleNamespace(half=half, word="half"))  # type: ignore[arg-type]
    assert backbones.build("nets:half", grey).dim == 6
    assert backbones.build("mine", grey, {"mine": half}).dim == 6
    for name, words in (
        ("nets:whole", "whole"),
        ("no_such_module:half", "no_such_module"),
        ("nets:word", "not a function"),
    ):
        with pytest.raises(UsageError, match=words):
            backbones.build(name, grey)


def test_layers_in_a_row_are_cut_in_the_middle() -> None:
    rows = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten())
    stages = backbones.build("mine", Input("image", (8, 8, 1)), {"mine": lambda: rows})
    assert stages.dim == 4 * 4 * 4
    assert len(stages.low) >= 2
    assert len(stages.high) >= 2


def test_another_package_s_network_has_a_name(monkeypatch, tmp_path):
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[protofleet.networks]\nten-wide = ten_wide:network\n")
    (tmp_path / "ten_wide.py").write_text(
        "from torch import nn\ndef network():\n    return nn.Linear(2, 10)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "ten-wide" in backbones.names()
    assert backbones.build("ten-wide", POINTS).dim == 10
