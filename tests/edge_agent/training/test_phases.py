"""Phases of training: seeds by name, rates by round, and an end that is said when it diverges."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from edge_agent.networks.net import build_net
from edge_agent.training.batches import SampleTensors
from edge_agent.training.phases import run_phases, way_out
from edge_agent.training.step import Stepper
from protofleet.contract import Contract, Input, Numerics, Training
from protofleet.errors import TrainingDiverged
from protofleet.methods import local
from protofleet.recipe import Phase, Turn
from protofleet.toolbox import losses

KIND = Input("image", (28, 28, 1))
TRAINING = Training(local_epochs=2, batch_size=4, lr=0.1, momentum=0.5, lr_decay=0.5)
CONTRACT = Contract("f", "r", 3, tuple("abc"), KIND, 50, training=TRAINING)
RNG = np.random.default_rng(0)
SAMPLES = SampleTensors.of(
    RNG.integers(0, 256, (10, 28, 28, 1), dtype=np.uint8), np.arange(10) % 3, KIND
)


def turn(round=1, contract=CONTRACT):
    return Turn(contract, local.Hyper(), round, "a")


def trained(phases, at=None, stage="train", backbone="cnn-mnist", compile=False):
    """The weights after these phases, always from the same start."""
    at = at or turn()
    net = build_net(at.contract, backbone, {}, 3)
    run_phases(Stepper(net, Numerics(compile=compile)), phases, SAMPLES, at, stage)
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def rates(monkeypatch):
    """The rates that each stretch of training was begun with."""
    begun = []
    start = Stepper.start

    def noted(self, loss, hyper, modules, loss_inputs, rates):
        begun.append(rates)
        return start(self, loss, hyper, modules, loss_inputs, rates)

    monkeypatch.setattr(Stepper, "start", noted)
    return begun


def test_dropout_and_order_come_from_names_and_not_from_what_was_drawn_before():
    first = trained([Phase(local.loss)])
    torch.rand(11)
    assert same(first, trained([Phase(local.loss)]))
    assert not same(first, trained([Phase(local.loss)], stage="adapt"))
    assert not same(first, trained([Phase(local.loss)], turn(2)))


def test_the_rate_decays_from_the_second_round_on_and_a_phase_may_have_its_own(rates):
    trained([Phase(local.loss)], turn(1))
    trained([Phase(local.loss), Phase(local.loss, lr=1.0, momentum=0.0)], turn(3))
    assert [(r.lr, r.momentum) for r in rates] == [(0.1, 0.5), (0.025, 0.5), (0.25, 0.0)]


def test_phases_follow_each_other_from_where_the_one_before_ended():
    both = trained([Phase(local.loss, train=("backbone",)), Phase(local.loss, train=("head",))])
    first = trained([Phase(local.loss, train=("backbone",))])
    for name in both:
        assert torch.equal(both[name], first[name]) is name.startswith("backbone."), name


@pytest.mark.parametrize("frozen", [True, False])
def test_an_extractor_that_does_not_learn_keeps_its_running_statistics(frozen):
    contract = replace(CONTRACT, embedding=32 * 49, freeze=frozen)
    at, phase = turn(contract=contract), Phase(local.loss, train=("head",))
    before = build_net(contract, "cnn-fashion", {}, 3).backbone.state_dict()
    after = trained([phase], at, backbone="cnn-fashion")
    assert all(torch.equal(after[f"backbone.{name}"], before[name]) for name in before)


def test_a_phase_may_bring_samples_of_its_own(monkeypatch):
    shapes = []

    def loss(net, batch, loss_inputs, hyper):
        shapes.append((tuple(batch.x.shape), batch.y.tolist()))
        return net.head(batch.x).square().mean()

    features = np.ones((6, 50), np.float32), np.arange(6) % 3
    trained([Phase(loss, train=("head",), data=features, epochs=1, batch_size=6)])
    ((shape, labels),) = shapes
    assert (shape, sorted(labels)) == ((6, 50), [0, 0, 1, 1, 2, 2])


def test_what_a_loss_is_given_is_a_copy():
    anchor = np.zeros(3, np.float32)
    anchor.setflags(write=False)

    def loss(net, batch, loss_inputs, hyper):
        loss_inputs["anchor"] += 1
        return net(batch.x)[2].square().mean()

    trained([Phase(loss, given={"anchor": anchor})])
    assert (anchor == 0).all()


# With batch statistics and without dropout; its embedding is projected to 50.
FASHION = {"backbone": "cnn-fashion"}


def features(rng):
    return rng.normal(size=(10, 50)).astype(np.float32), np.arange(10) % 3


def on_features(net, batch, loss_inputs, hyper):
    return losses.cross_entropy(net.head(batch.x), batch.y)


def test_a_phase_between_runs_whole_after_every_step_and_leaves_the_extractor_alone():
    calls, drawn, extractor = [], [], []

    def outer(net, batch, loss_inputs, hyper):
        if extractor:  # as the retraining before this step met it, running statistics included
            now = net.weights("backbone")
            assert all(torch.equal(now[name], tensor) for name, tensor in extractor[-1].items())
        assert net.backbone.training
        calls.append(("outer", len(batch.y)))
        return local.loss(net, batch, loss_inputs, hyper)

    def inner(net, batch, loss_inputs, hyper):
        assert not net.backbone.training
        if calls[-1][0] == "outer":
            weights = net.weights("backbone")
            extractor.append({name: tensor.clone() for name, tensor in weights.items()})
        calls.append(("inner", len(batch.y)))
        return on_features(net, batch, loss_inputs, hyper)

    def draw(rng):
        drawn.append(features(rng))
        return drawn[-1]

    retraining = Phase(inner, train=("head",), epochs=1, data=draw)
    trained([Phase(outer, between=retraining)], **FASHION)
    inner_pass = [("inner", 4), ("inner", 4), ("inner", 2)]
    # Ten samples in batches of 4, two epochs.
    assert calls == 2 * [
        ("outer", 4),
        *inner_pass,
        ("outer", 4),
        *inner_pass,
        ("outer", 2),
        *inner_pass,
    ]
    assert len({x.tobytes() for x, _ in drawn}) == 6  # anew after every batch
    for one, other in itertools.pairwise(extractor):  # the outer phase's steps do move it
        assert not same(one, other)


def test_one_batch_and_a_phase_between_are_two_phases_one_after_the_other():
    at = turn(contract=replace(CONTRACT, training=replace(TRAINING, batch_size=10, local_epochs=1)))
    retraining = Phase(on_features, train=("head",), data=features(np.random.default_rng(0)))
    woven = trained([Phase(local.loss, between=retraining)], at, **FASHION)
    apart = trained([Phase(local.loss), retraining], at, **FASHION)
    for name, tensor in apart.items():
        torch.testing.assert_close(woven[name], tensor, rtol=1e-5, atol=1e-6)
    assert not same(woven, trained([Phase(local.loss)], at, **FASHION))


def test_the_momenta_of_a_phase_between_live_as_long_as_the_phase_around_it():
    # The outer loss moves nothing, so what is left is the inner phase: six passes of one step each
    # are six steps of one optimiser.
    def still(net, batch, loss_inputs, hyper):
        return 0 * local.loss(net, batch, loss_inputs, hyper)

    x, y = features(np.random.default_rng(0))
    retraining = Phase(
        on_features, train=("head",), epochs=1, batch_size=10, momentum=0.9, data=(x, y)
    )
    woven = trained([Phase(still, between=retraining)], **FASHION)
    net = build_net(CONTRACT, "cnn-fashion", {}, 3)
    optimiser = torch.optim.SGD(net.head.parameters(), lr=TRAINING.lr, momentum=0.9)
    for _ in range(6):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net.head(torch.tensor(x)), torch.tensor(y)).backward()
        optimiser.step()
    for name, tensor in net.weights("head").items():
        torch.testing.assert_close(woven[name], tensor, rtol=1e-5, atol=1e-6)


def test_a_compiled_phase_between_is_the_plain_one():
    phases = [
        Phase(local.loss, between=Phase(on_features, train=("head",), epochs=1, data=features))
    ]
    plain, fast = (trained(phases, compile=on, **FASHION) for on in (False, True))
    for name, tensor in plain.items():
        torch.testing.assert_close(fast[name], tensor, rtol=1e-3, atol=1e-4)


def test_training_that_diverges_says_so_and_what_to_do():
    wild = replace(TRAINING, lr=1e30)
    with pytest.raises(
        TrainingDiverged, match="agent a, round 1: training diverged; try a smaller learning rate"
    ):
        trained([Phase(local.loss)], turn(contract=replace(CONTRACT, training=wild)))


CIFAR = Input("image", (32, 32, 3))


@pytest.mark.parametrize(("name", "notices"), [("shufflenet_v2_x1_0", True), ("resnet8", False)])
def test_batch_statistics_of_two_samples_blow_gradients_up_where_maps_are_of_one_pixel(
    name, notices
):
    contract = Contract("f", "r", 0, tuple("abcd"), CIFAR, 64)
    net = build_net(contract, name, {}, 0)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 3, 32, 32, generator=generator)

    def length(count):
        value = losses.cross_entropy(net(x[:count])[2], torch.arange(count) % 4)
        gradients = torch.autograd.grad(value, list(net.parameters()))
        return float(torch.cat([g.flatten() for g in gradients]).double().norm())

    assert (length(2) > 20 * length(32)) is notices


@pytest.mark.parametrize(
    ("backbone", "count", "last_batch", "words"),
    [
        ("cnn-fashion", 10, "keep", "its last batch has 2 samples.*: --last-batch drop"),
        ("cnn-fashion", 10, "drop", "try a smaller learning rate"),
        ("cnn-fashion", 12, "keep", "try a smaller learning rate"),
        (
            "cnn-fashion",
            3,
            "keep",
            "try a smaller learning rate",
        ),  # the only batch is never left out
        ("cnn-mnist", 10, "keep", "try a smaller learning rate"),  # without batch statistics
    ],
)
def test_what_to_do_about_numbers_that_are_not_finite(backbone, count, last_batch, words):
    net = build_net(CONTRACT, backbone, {}, 3)
    assert re.search(words, way_out(net, count, replace(TRAINING, last_batch=last_batch)))


def test_a_last_batch_that_is_not_full_is_not_trained_on_where_the_fleet_says_so():
    sizes = []

    def loss(net, batch, loss_inputs, hyper):
        sizes.append(len(batch.y))
        return local.loss(net, batch, loss_inputs, hyper)

    for last_batch in ("keep", "drop"):
        training = replace(TRAINING, local_epochs=1, last_batch=last_batch)
        trained([Phase(loss)], turn(contract=replace(CONTRACT, training=training)))
    assert sizes == [4, 4, 2, 4, 4]


def test_a_phase_may_learn_from_some_samples_alone():
    some = np.array([1, 4, 5, 8])
    alone = SampleTensors(SAMPLES.x[some], SAMPLES.y[some])
    at, nets = turn(), [build_net(CONTRACT, "cnn-mnist", {}, 3) for _ in range(2)]
    for net, phase, samples in zip(
        nets, (Phase(local.loss, rows=some), Phase(local.loss)), (SAMPLES, alone), strict=True
    ):
        run_phases(Stepper(net, Numerics()), [phase], samples, at, "train")
    assert same(*(net.state_dict() for net in nets))


def test_a_phase_that_is_still_moves_no_running_statistics():
    for still in (True, False):
        weights = trained([Phase(local.loss, still=still)], backbone="resnet8")
        means = [tensor for name, tensor in weights.items() if name.endswith("running_mean")]
        assert all(bool((mean == 0).all()) for mean in means) == still
