"""The training step against torch's own optimiser, and its compiled form against the plain one."""

import copy

import pytest
import torch

from edge_agent.networks.net import build_net
from edge_agent.training.step import Rates, Stepper
from protofleet.contract import Contract, Input, Numerics
from protofleet.methods import fedproto
from protofleet.recipe import Batch
from protofleet.toolbox.access import as_given
from protofleet.values.prototypes import Prototypes

RATES = Rates(lr=0.05, momentum=0.9, weight_decay=0.01)


def contract(shape=(28, 28, 1), d=50):
    return Contract(
        "f", "r", 0, tuple("abcd"), Input("image", shape, (0.5,) * shape[2], (0.5,) * shape[2]), d
    )


def batches(shape, count=6, size=8):
    draw = torch.Generator().manual_seed(1)
    return [
        Batch(
            torch.randn(size, shape[2], *shape[:2], generator=draw),
            torch.randint(0, 4, (size,), generator=draw),
        )
        for _ in range(count)
    ]


def given(d):
    import numpy as np

    table = Prototypes([0, 1, 2], np.linspace(0, 1, 3 * d).reshape(3, d))
    return {name: torch.from_numpy(array) for name, array in as_given(table, 4, d).items()}


def trained(net, numerics, modules=(), rates=RATES):
    step = Stepper(net, numerics).start(
        fedproto.loss, fedproto.Hyper(), modules, given(net.head[-1].in_features), rates
    )
    for batch in batches((28, 28, 1)):
        step(batch, True)
    return net.state_dict()


def test_a_step_is_torchs_sgd_with_momentum_and_weight_decay():
    ours = build_net(contract(), "cnn4", {}, 3)
    theirs = copy.deepcopy(ours)
    optimiser = torch.optim.SGD(
        theirs.parameters(), lr=RATES.lr, momentum=RATES.momentum, weight_decay=RATES.weight_decay
    )
    for batch in batches((28, 28, 1)):
        optimiser.zero_grad()
        fedproto.loss(theirs, batch, given(50), fedproto.Hyper()).backward()
        optimiser.step()
    got = trained(ours, Numerics())
    for name, tensor in theirs.state_dict().items():
        torch.testing.assert_close(got[name], tensor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "numerics", [Numerics(compile=True), Numerics(compile=True, layout="channels-last")]
)
@pytest.mark.parametrize("rates", [RATES, Rates(0.05, 0.5, 0.0), Rates(0.05, 0.0, 0.0)])
def test_the_compiled_step_is_the_plain_one_batch_statistics_included(numerics, rates):
    plain = build_net(contract(), "cnn-fashion", {}, 3)
    compiled = copy.deepcopy(plain)
    if numerics.layout == "channels-last":
        compiled = compiled.to(memory_format=torch.channels_last)
    start = plain.state_dict()
    before = {name: tensor.clone() for name, tensor in start.items()}
    want, got = trained(plain, Numerics(), rates=rates), trained(compiled, numerics, rates=rates)
    for name, tensor in want.items():
        if "num_batches" in name:
            assert torch.equal(got[name], tensor)
            continue
        # Sums are taken in another order, which six steps amplify: hold the difference to the
        # length of the way.
        way, apart = (tensor - before[name]).norm(), (got[name] - tensor).norm()
        assert way > 0
        # A bias before batch statistics has no gradient but rounding: it moves by nothing, either
        # way.
        assert apart < 0.01 * way + 1e-5, name


def test_only_the_named_modules_learn():
    net = build_net(contract(), "cnn4", {}, 3)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    after = trained(net, Numerics(), modules=("head",))
    changed = {
        name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])
    }
    assert changed == {"head"}


def test_a_compiled_step_draws_nothing_while_it_is_traced():
    torch.manual_seed(5)
    trained(build_net(contract(), "cnn4", {}, 3), Numerics(compile=True))
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))


def test_reduced_precision_trains_to_nearly_the_same_weights():
    plain, reduced = build_net(contract(), "cnn4", {}, 3), build_net(contract(), "cnn4", {}, 3)
    want, got = trained(plain, Numerics()), trained(reduced, Numerics(dtype="bf16"))
    assert all(tensor.dtype == torch.float32 for tensor in got.values())
    for name, tensor in want.items():
        torch.testing.assert_close(got[name], tensor, rtol=0.1, atol=0.02)
