"""Trained-looking devices and their bundles for tests: small networks, prototypes from their own
embeddings.
"""

from dataclasses import replace

import numpy as np
import torch

from edge_agent.data.sets import load
from edge_agent.data.usage import Usage
from edge_agent.networks.net import build_net
from export.source import Source, Trial, trials
from protofleet import registry
from protofleet.contract import Contract, Input
from protofleet.exchange.published import About, Bank
from protofleet.recipe import ByHead, LikeliestMixture, Linear, NearestPrototype
from protofleet.toolbox.mixtures import class_mixtures
from protofleet.toolbox.summaries import class_means
from protofleet.values.prototypes import Tensors

RNG = np.random.default_rng(7)


def digits():
    return load("digits", data_dir=None)


def device(
    backbone="mlp",
    *,
    data=None,
    kind=None,
    extras=None,
    embedding=24,
    hidden=(),
    **terms,
):
    """A network with weights from a seed, and every way of classifying by its own class means."""
    data = digits() if data is None and kind is None else data
    contract = Contract(
        "f",
        "r",
        3,
        data.classes if data else tuple("abcd"),
        data.input if data else kind,
        embedding,
        hidden,
        **terms,
    )
    net = build_net(contract, backbone, extras or {}, 5).eval()
    used = None
    if data is not None:
        rows = np.arange(len(data.y))
        used = Usage.of(data, rows[: data.n_train], rows[data.n_train :])
    calibration, check, measured = trials(data, contract, used)
    if data is None:
        shape = contract.input.shape
        x = (
            RNG.integers(0, 256, (80, *shape), dtype=np.uint8)
            if contract.input.kind == "image"
            else RNG.normal(size=(80, *shape)).astype(np.float32)
        )
        calibration = check = Trial(x, np.arange(80) % 4)
        measured = "80 samples made up"
    weights = Tensors({name: tensor.detach().numpy() for name, tensor in net.weights().items()})
    hyper = registry.load("fedproto").hyper()
    bare = Source(
        contract,
        "fedproto",
        hyper,
        backbone,
        4,
        net,
        weights,
        {},
        calibration,
        check,
        measured=measured,
    )
    return replace(bare, scorers=scorers(bare, "through" if extras else ""))


def embedded(source, x):
    from edge_agent.inference.bundle import Reading
    from export.graph import Embedder

    with torch.no_grad():
        return Embedder(source.net, source.contract.input, Reading("prototypes"))(
            torch.from_numpy(x)
        ).numpy()


def scorers(source, through):
    f, y = embedded(source, source.calibration.x), source.calibration.y
    unit = f / np.linalg.norm(f, axis=1, keepdims=True)
    found = {
        "prototype": NearestPrototype(class_means(f, y)),
        "cosine": NearestPrototype(class_means(f, y), "cosine"),
        "unit": NearestPrototype(class_means(unit, y), of_unit=True),
        "head": ByHead(),
        "unit-head": ByHead(of_unit=True),
        "mixture": LikeliestMixture(class_mixtures(f, y, 2, 1e-3, 0)),
    }
    if through:
        with torch.no_grad():
            seen = source.net.extra(through, torch.from_numpy(f)).numpy()
        found["through"] = NearestPrototype(class_means(seen, y), "cosine", through=through)
    return found


def other_bank(bank, seed=1, rows=3):
    """Other prototypes for the same classes, another number of them."""
    rng, classes = np.random.default_rng(seed), np.unique(bank.points.classes)
    centre, spread = bank.points.vectors.mean(0), bank.points.vectors.std(0)
    vectors = centre + spread * rng.normal(size=(rows * len(classes), bank.points.dim))
    return Bank(bank.about, type(bank.points)(np.repeat(classes, rows), vectors.astype(np.float32)))


__all__ = ["About", "Bank", "Input", "Linear", "device", "digits", "embedded", "other_bank"]
