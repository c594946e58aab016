"""What one process trains with: resident networks, and weights that depend on names alone."""

from dataclasses import replace

import pytest
import torch

from edge_agent.training.context import TrainingContext, settle
from protofleet import registry
from protofleet.contract import Contract, Input, Numerics

CONTRACT = Contract("f", "r", 3, tuple("abc"), Input("vector", (5,)), 8)


def context(**changes):
    recipe = registry.load("fedproto")
    return TrainingContext(replace(CONTRACT, **changes), recipe, recipe.hyper())


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_network_is_resident_one_a_backbone():
    room = context()
    assert room.stepper("mlp") is room.stepper("mlp")
    assert room.stepper("mlp").net is not room.stepper("mlp-wide").net


@pytest.mark.parametrize("together", [True, False])
def test_devices_start_together_only_where_the_contract_says_so(together):
    one, other = context(common_start=together), context(common_start=together)
    first = one.initial_weights("mlp", "a")
    torch.rand(7)  # whatever was drawn before
    assert same(first, other.initial_weights("mlp", "a"))
    assert same(first, other.initial_weights("mlp", "b")) is together


def test_another_run_or_another_seed_is_another_start():
    first = context().initial_weights("mlp", "a")
    for changed in (context(run="s"), context(seed=4)):
        assert not same(first, changed.initial_weights("mlp", "a"))


def test_initial_weights_are_a_copy_and_not_the_network():
    room = context()
    weights = room.initial_weights("mlp", "a")
    before = {name: tensor.clone() for name, tensor in weights.items()}
    with torch.no_grad():
        for tensor in room.stepper("mlp").net.parameters():
            tensor.zero_()
    assert same(weights, before)


def test_a_frozen_extractor_has_nothing_to_learn_and_its_classifier_has():
    net = context(freeze=True).stepper("mlp").net
    assert not any(weight.requires_grad for weight in net.backbone.parameters())
    assert all(weight.requires_grad for weight in net.head.parameters())


def test_the_process_computes_as_the_contract_says():
    before = torch.get_num_threads()
    try:
        settle(Numerics(threads=2))
        assert torch.get_num_threads() == 2
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        settle(Numerics(threads=before))
