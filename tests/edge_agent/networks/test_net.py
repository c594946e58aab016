"""A device's network: what recipes see of it, weights from a seed alone, and the forms in which it
is stepped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from edge_agent.networks.net import FleetNet, build_net, natural
from protofleet.contract import Contract, Input
from protofleet.errors import UsageError
from protofleet.recipe import Linear, Net

CIFAR = Input("image", (32, 32, 3))
MNIST = Input("image", (28, 28, 1))
EXTRAS = {"projection": Linear(7, bias=False)}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small tensors on a busy machine: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def contract(input: Input, embedding: int, hidden: tuple[int, ...] = ()) -> Contract:
    return Contract("fleet", "run", 0, tuple("abcdefghij"), input, embedding, hidden)


def own(name: str, input: Input, seed: int = 0) -> FleetNet:
    """A fleet that has this backbone's own sizes."""
    return build_net(contract(input, *natural(name, input)), name, {}, seed)


def images(input: Input, n: int = 4) -> Tensor:
    return torch.randn(
        n, input.shape[2], *input.shape[:2], generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize(
    ("name", "input", "weights"), [("lenet", CIFAR, 62_006), ("cnn4", MNIST, 582_026)]
)
def test_the_papers_networks_have_their_weights(name: str, input: Input, weights: int) -> None:
    assert sum(w.numel() for w in own(name, input).weights().values()) == weights


def test_what_a_recipe_sees() -> None:
    net: Net = build_net(contract(CIFAR, 120, (84,)), "lenet", EXTRAS, 0)
    u, z = net.features(images(CIFAR))
    assert (u.shape, z.shape) == ((4, 400), (4, 120))
    assert net.head(z).shape == (4, 10)
    assert net.extra("projection", z).shape == (4, 7)
    assert [t.shape for t in net(images(CIFAR))] == [(4, 400), (4, 120), (4, 10)]  # type: ignore[operator]


def test_another_embedding_size_is_projected() -> None:
    net = build_net(contract(CIFAR, 33), "lenet", {}, 0)
    u, z, logits = net(images(CIFAR))
    assert (u.shape, z.shape, logits.shape) == ((4, 400), (4, 33), (4, 10))
    assert "backbone.project.weight" in net.weights("backbone")
    assert "backbone.project.weight" not in own("lenet", CIFAR).weights()


def test_the_head_is_the_contracts_whatever_the_backbone() -> None:
    agreed = contract(CIFAR, 64, (20, 30))
    nets = [build_net(agreed, name, {}, 0) for name in ("lenet", "resnet8", "mobilenet_v3_small")]
    shapes = [{k: v.shape for k, v in net.weights("head").items()} for net in nets]
    assert shapes[0] == shapes[1] == shapes[2]
    assert shapes[0]["head.out.weight"] == (10, 30)
    assert {name.split(".")[1] for name in shapes[0]} == {"hidden1", "hidden2", "out"}


def test_weights_by_module() -> None:
    net = build_net(contract(MNIST, 1_568), "cnn-fashion", EXTRAS, 0)
    everything = net.weights()
    assert everything == {
        **net.weights("backbone"),
        **net.weights("head"),
        **net.weights("projection"),
    }
    assert list(net.weights("projection")) == ["extras.projection.weight"]
    learns = {name for name, tensor in everything.items() if isinstance(tensor, nn.Parameter)}
    assert learns == {name for name, _ in net.named_parameters()}
    assert {name.rpartition(".")[2] for name in everything.keys() - learns} == {
        "running_mean",
        "running_var",
    }
    assert everything.keys() <= net.state_dict().keys()
    with pytest.raises(UsageError, match="no module 'tail'; it has backbone, head, projection"):
        net.weights("tail")


def test_the_seed_and_nothing_else_decides_the_weights() -> None:
    agreed = contract(CIFAR, 64)
    for name in ("lenet", "shufflenet_v2_x1_0"):
        torch.manual_seed(1)
        first = build_net(agreed, name, EXTRAS, 5).state_dict()
        torch.manual_seed(2)
        torch.rand(3)
        before = torch.get_rng_state()
        again, other = (
            build_net(agreed, name, EXTRAS, 5).state_dict(),
            build_net(agreed, name, EXTRAS, 6).state_dict(),
        )
        natural(name, CIFAR)
        assert torch.equal(torch.get_rng_state(), before)
        assert all(torch.equal(first[key], again[key]) for key in first)
        assert not torch.equal(first["head.out.weight"], other["head.out.weight"])


def test_a_new_network_is_in_training_mode_with_fresh_statistics() -> None:
    net = own("resnet8", CIFAR)
    assert all(module.training for module in net.modules())
    assert net.state_dict()["backbone.low.bn1.num_batches_tracked"] == 0
    assert torch.equal(net.weights()["backbone.low.bn1.running_var"], torch.ones(16))


def test_fedprotos_dropout_is_only_seen_by_the_classifier() -> None:
    net = own("cnn-mnist", MNIST)
    z = torch.ones(1, 50)
    assert not torch.equal(net.head(z), net.head(z))
    net.eval()
    assert torch.equal(net.head(z), net.head(z))
    assert torch.equal(net(images(MNIST))[1], net.features(images(MNIST))[1])


@pytest.mark.parametrize("name", ["lenet", "cnn-mnist", "cnn-fashion", "cnn4", "resnet8"])
def test_the_network_can_be_traced_with_its_weights_as_inputs(name: str) -> None:
    input = MNIST if name.startswith("cnn") else CIFAR
    net = build_net(contract(input, 40), name, EXTRAS, 0)
    first = next(iter(net.weights()))
    x = images(input)
    state = {k: v.detach().clone() for k, v in net.state_dict().items()}

    def gradient(state: dict[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        leaf = state[first].detach().requires_grad_()
        _, _, logits = torch.func.functional_call(net, {**state, first: leaf}, (x,))
        return logits, torch.autograd.grad(logits.square().sum(), leaf)[0]

    graph = make_fx(gradient)({k: v.clone() for k, v in state.items()}, x)

    def seeded(call: object) -> tuple[Tensor, Tensor]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return call({k: v.clone() for k, v in state.items()}, x)  # type: ignore[operator, no-any-return]

    for traced, plain in zip(seeded(graph), seeded(gradient), strict=True):
        torch.testing.assert_close(traced, plain)


@pytest.mark.parametrize("name", ["lenet", "cnn-fashion", "resnet8"])
def test_the_memory_layout_changes_no_answer(name: str) -> None:
    net = own(name, CIFAR).eval()
    x = images(CIFAR)
    with torch.inference_mode():
        plain = net(x)
        last = net.to(memory_format=torch.channels_last)(
            x.contiguous(memory_format=torch.channels_last)
        )  # type: ignore[call-overload]
    for a, b in zip(plain, last, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("embedding", [120, 33])
def test_the_embedding_has_length_one_where_the_fleet_says_so(embedding: int) -> None:
    plain, unit = (
        build_net(replace(contract(CIFAR, embedding), unit_embedding=on), "lenet", EXTRAS, 0).eval()
        for on in (False, True)
    )
    assert all(torch.equal(a, unit.weights()[name]) for name, a in plain.weights().items())
    x = images(CIFAR)
    with torch.no_grad():
        (_, z, _), (u, scaled, logits) = plain(x), unit(x)
        rows = z.numpy().astype(np.float64)
        expected = rows / np.sqrt((rows * rows).sum(1, keepdims=True))
        np.testing.assert_allclose(scaled.numpy(), expected, atol=1e-6)
        assert torch.equal(u, plain(x)[0])  # the low level is as it was
        # Heads, and networks with other weights, read the same embedding.
        assert torch.equal(logits, unit.head(scaled))
        assert torch.equal(unit.features_with(unit.weights(), x)[1], scaled)
        with torch.autocast("cpu", torch.bfloat16):
            half = unit.features(x)[1]
    assert half.dtype == torch.float32
    torch.testing.assert_close(half.norm(dim=1), torch.ones(len(x)))


@pytest.mark.parametrize("relu", [False, True])
def test_mp_fedcls_network_has_its_weights_with_and_without_its_last_relu(relu: bool) -> None:
    fleet = replace(contract(MNIST, *natural("mlp-mnist", MNIST)), head_relu=relu)
    net = build_net(fleet, "mlp-mnist", {}, 0)
    weights = net.weights()
    assert sum(w.numel() for w in weights.values()) == 798_474
    plain = own("mlp-mnist", MNIST)
    assert all(torch.equal(weights[name], w) for name, w in plain.weights().items())
    _, _, logits = plain(images(MNIST))
    assert (logits < 0).any()
    assert torch.equal(net(images(MNIST))[2], logits.clamp(min=0) if relu else logits)


@pytest.mark.parametrize("relu", [False, True])
def test_fedpcls_network_is_its_codes_own_lines(relu: bool) -> None:
    fleet = replace(
        contract(MNIST, *natural("mlp-mnist", MNIST)),
        unit_embedding=True,
        head_relu=relu,
        unit_logits=True,
    )
    net, plain = build_net(fleet, "mlp-mnist", {}, 0), own("mlp-mnist", MNIST)
    assert all(torch.equal(plain.weights()[name], w) for name, w in net.weights().items())
    x = images(MNIST)
    # In doubles: the embedding by its length, the last layer, its ReLU, the logits by theirs.
    out = plain.head.get_submodule("out")
    z = plain.features(x)[1].detach().numpy().astype(np.float64)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    logits = z @ out.weight.detach().numpy().T.astype(np.float64) + out.bias.detach().numpy()
    logits = np.maximum(logits, 0) if relu else logits
    logits /= np.linalg.norm(logits, axis=1, keepdims=True)
    np.testing.assert_allclose(net(x)[2].detach().numpy(), logits, atol=1e-6)
    _, embedding, scores = net(x)
    before = net.head.get_submodule("out")(net.before_last(embedding))
    assert torch.equal(net.after_last(before), scores)


def test_a_sample_all_of_whose_logits_are_below_zero_moves_nothing_behind_a_last_relu() -> None:
    fleet = Contract("f", "r", 0, ("a", "b"), Input("vector", (2,)), 2, head_relu=True)
    net = build_net(fleet, "mlp-small", {}, 0)
    with torch.no_grad():
        net.head.get_submodule("out").weight.copy_(torch.eye(2))
        net.head.get_submodule("out").bias.zero_()
    labels = torch.tensor([0])
    for z, moves in (([-1.0, -2.0], False), ([-1.0, 2.0], True), ([1.0, 2.0], True)):
        embedding = torch.tensor([z], requires_grad=True)
        loss = torch.nn.functional.cross_entropy(net.head(embedding), labels)
        rows = torch.autograd.grad(loss, net.head.get_submodule("out").weight)[0]
        assert bool(rows.any()) is moves
        if not moves:  # −log ½, whatever the label
            assert loss.item() == pytest.approx(np.log(2))


@pytest.mark.parametrize("hidden", [(), (30,), (30, 20)])
@pytest.mark.parametrize("relu", [False, True])
def test_what_the_last_layer_reads(hidden: tuple[int, ...], relu: bool) -> None:
    fleet = replace(contract(MNIST, 50, hidden), head_relu=relu)
    net = build_net(fleet, "cnn-mnist", {}, 0).eval()
    captured: list[Tensor] = []
    net.head.get_submodule("out").register_forward_pre_hook(lambda _, x: captured.append(x[0]))
    with torch.no_grad():
        _, z, _ = net(images(MNIST))
        assert torch.equal(net.before_last(z), captured[0])
    assert captured[0].shape[1] == (50, *hidden)[-1]


@pytest.mark.parametrize(("embedding", "hidden"), [(120, (84,)), (33, (20, 10))])
def test_hidden_layers_before_the_embedding_are_those_that_a_classifier_would_have(
    embedding: int, hidden: tuple[int, ...]
) -> None:
    inside = build_net(contract(CIFAR, embedding, hidden), "lenet", {}, 0).eval()
    fleet = replace(contract(CIFAR, hidden[-1]), neck=(embedding, *hidden))
    before = build_net(fleet, "lenet", {}, 0).eval()
    with torch.no_grad():
        _, z, logits = inside(images(CIFAR))
        _, features, same = before(images(CIFAR))
        assert torch.equal(logits, same)
        assert torch.equal(features, inside.before_last(z))
        assert torch.equal(features, before.before_last(features))
    assert set(before.weights("head")) == {"head.out.weight", "head.out.bias"}
    assert sum(w.numel() for w in before.weights().values()) == sum(
        w.numel() for w in inside.weights().values()
    )


@pytest.mark.parametrize(
    ("name", "dim", "rank"),
    [("resnet8", 64, 64), ("lenet", 120, 120), ("mobilenet_v3_small", 1024, 512)],
)
def test_features_are_pooled_to_the_embedding_without_parameters(
    name: str, dim: int, rank: int
) -> None:
    fleet = replace(contract(CIFAR, 512), resize="pool")
    net = build_net(fleet, name, {}, 0).eval()
    assert not any("project" in key for key in (*net.state_dict(), *net.weights()))
    windows = net.backbone["project"]
    x = np.random.default_rng(0).normal(size=(5, dim)).astype(np.float32)
    # The windows as adaptive average pooling is documented, one by one.
    expected = [
        [row[i * dim // 512 : -(-(i + 1) * dim // 512)].mean() for i in range(512)] for row in x
    ]
    ours = windows(torch.from_numpy(x))
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-5, atol=1e-6)
    torchs = nn.AdaptiveAvgPool1d(512)(torch.from_numpy(x).unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(ours, torchs, rtol=1e-5, atol=1e-6)
    # What a fleet's 512 numbers can say of this network's features.
    assert np.linalg.matrix_rank(windows(torch.eye(dim)).numpy()) == rank
    with torch.no_grad():
        assert net(images(CIFAR))[1].shape == (4, 512)


def test_a_small_networks_pooled_features_repeat_themselves() -> None:
    net = build_net(replace(contract(CIFAR, 512), resize="pool"), "resnet8", {}, 0).eval()
    with torch.no_grad():
        _, z, _ = net(images(CIFAR))
    assert torch.equal(z, z[:, ::8].repeat_interleave(8, dim=1))  # 64 numbers, each eight times


def test_a_network_of_the_embeddings_own_size_is_neither_pooled_nor_projected() -> None:
    plain, pooled = (
        build_net(replace(contract(CIFAR, 64), resize=kind), "resnet8", {}, 0).eval()
        for kind in ("linear", "pool")
    )
    assert plain.state_dict().keys() == pooled.state_dict().keys()
    assert torch.equal(plain(images(CIFAR))[1], pooled(images(CIFAR))[1])
