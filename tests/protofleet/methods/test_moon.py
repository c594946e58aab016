"""MOON: what it remembers, and which way its contrast pulls."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import nn

from edge_agent.networks.net import build_net
from protofleet.contract import Contract, Input
from protofleet.methods import fedavg, moon
from protofleet.recipe import Batch, Turn
from protofleet.values.prototypes import Tensors

CONTRACT = Contract("f", "r", 0, ("a", "b"), Input("image", (28, 28, 1)), 128)
TURN = Turn(CONTRACT, moon.Hyper(), 1, "a")


@dataclass
class Device:
    net: nn.Module
    samples: int = 9
    memory: dict = field(default_factory=dict)

    def weights(self, *modules):
        return Tensors({name: w.detach().numpy() for name, w in self.net.weights(*modules).items()})


def networks(*seeds):
    return [build_net(CONTRACT, "resnet8", {}, seed) for seed in seeds]  # it has batch norm


def batch_of(n=6):
    x = torch.rand((n, 1, 28, 28), generator=torch.Generator().manual_seed(0))
    return Batch(x, torch.arange(n) % 2)


def tensors(phase):
    return {name: torch.from_numpy(np.array(array)) for name, array in phase.given.items()}


def gradient(net, given, mu):
    value = moon.loss(net, batch_of(), given, moon.Hyper(mu=mu))
    return value.item(), torch.autograd.grad(value, list(net.parameters()), allow_unused=True)


def test_in_a_first_round_the_contrast_is_a_constant():
    [net] = networks(1)
    [phase] = moon.train(TURN, Device(net), {})
    net.eval()
    given = tensors(phase)
    (plain, want), (value, got) = gradient(net, given, 0.0), gradient(net, given, 3.0)
    assert value == pytest.approx(plain + 3 * np.log(2), rel=1e-5)
    for one, two in zip(want, got, strict=True):
        torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-4)


def test_the_loss_holds_features_to_the_models_that_the_round_began_with_and_ended_in_before():
    now, before, learning = networks(1, 2, 3)
    device = Device(before)
    sent = moon.summarise(TURN, device, {})
    assert sent.keys() == fedavg.summarise(TURN, device, {}).keys()
    device.net = now
    [phase] = moon.train(TURN, device, {})
    for net in (now, before, learning):
        net.eval()
    batch, given = batch_of(), tensors(phase)
    z, near, off = (net.features(batch.x)[1] for net in (learning, now, before))
    cosine = nn.CosineSimilarity(dim=1)
    scores = torch.stack([cosine(z, near), cosine(z, off)], 1) / 0.5
    want = nn.functional.cross_entropy(
        scores, torch.zeros(6, dtype=torch.long)
    )  # as the official code has it
    got = moon.loss(learning, batch, given, moon.Hyper(mu=1.0)) - moon.loss(
        learning, batch, given, moon.Hyper(mu=0.0)
    )
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


def test_other_models_are_read_in_evaluation_mode_and_stay_as_they_are():
    net, other = networks(1, 2)
    other.eval()
    net.train()
    net.backbone["low"].eval()
    weights = {name: w.detach().clone() for name, w in other.weights("backbone").items()}
    kept = {name: w.clone() for name, w in weights.items()}
    batch = batch_of()
    _, got = net.features_with(weights, batch.x)
    torch.testing.assert_close(got, other.features(batch.x)[1].detach())
    assert all(torch.equal(weights[name], kept[name]) for name in kept)
    assert net.training
    assert not net.backbone["low"].training
    assert net.backbone["high"].training
