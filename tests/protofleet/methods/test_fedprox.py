"""FedProx: what its proximal term adds to the loss and to the gradient."""

import numpy as np
import pytest
import torch

from protofleet.methods import fedavg, fedprox, local
from protofleet.recipe import Turn
from tests.protofleet.methods import devices

TURN = Turn(devices.CONTRACT, fedprox.Hyper(), 1)


def constants_of(me):
    [phase] = fedprox.train(TURN, me, {})
    return {name: torch.from_numpy(np.array(array)) for name, array in phase.given.items()}


def gradients(net, value):
    named = dict(net.named_parameters())
    return dict(zip(named, torch.autograd.grad(value, list(named.values())), strict=True))


def test_where_a_round_begins_it_is_cross_entropy():
    me, samples = devices.device(1), devices.batch(8)
    free = local.loss(me.net, samples, {}, local.Hyper())
    held = fedprox.loss(me.net, samples, constants_of(me), fedprox.Hyper(mu=3.0))
    assert float(held.detach()) == float(free.detach())
    torch.testing.assert_close(gradients(me.net, held), gradients(me.net, free))


@pytest.mark.parametrize("mu", [0.0, 0.01, 3.0])
def test_the_gradient_is_that_of_cross_entropy_and_mu_times_the_way_gone(mu):
    me, samples = devices.device(1), devices.batch(8)
    constants = constants_of(me)
    me.load(devices.device(2).weights())  # as if training had gone from the one to the other
    free = gradients(me.net, local.loss(me.net, samples, {}, local.Hyper()))
    held = gradients(me.net, fedprox.loss(me.net, samples, constants, fedprox.Hyper(mu=mu)))
    for name, weight in me.net.named_parameters():
        torch.testing.assert_close(
            held[name], free[name] + mu * (weight.detach() - constants[name])
        )


def test_all_but_training_is_fedavgs():
    assert fedprox.recipe.fold is fedavg.fold  # by n, as FedAvg by default
    assert fedprox.recipe.fuse is fedavg.recipe.fuse
    assert fedprox.recipe.receive is fedavg.recipe.receive
    assert fedprox.recipe.traits == fedavg.recipe.traits
