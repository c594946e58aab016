"""An extractor that no fleet trained, from a file of weights; its prototypes are class means of
some samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edge_agent.data.dataset import DataSet
from edge_agent.inference.bundle import Reading
from edge_agent.networks.net import FleetNet, build_net, natural
from edge_agent.networks.pretrained import freeze, load_pretrained
from export.graph import Embedder
from export.source import Source, trials
from protofleet.contract import Contract
from protofleet.errors import UsageError
from protofleet.mqtt.topics import check_name
from protofleet.recipe import NearestPrototype
from protofleet.toolbox.summaries import class_means
from protofleet.values.prototypes import Floats, Tensors

METHOD = "pretrained"
AT_ONCE = 256


def from_weights(weights: str, backbone: str, data: DataSet, fleet: str) -> Source:
    """The backbone with these weights, frozen, and the means of every class of the training
    samples.
    """
    if not data.n_train:
        raise UsageError(f"{data.name} holds no samples to make prototypes of")
    # Without a projection to another size, whose random weights would spoil the published ones.
    size, _ = natural(backbone, data.input)
    contract = Contract(
        check_name("fleet", fleet), METHOD, 0, data.classes, data.input, size, freeze=True
    )
    net = build_net(contract, backbone, {}, 0)
    load_pretrained(net, backbone, weights)
    freeze(net)
    net.eval()
    rows = slice(0, data.n_train)
    means = class_means(_embedded(net, contract, data.x[rows]), data.y[rows])
    scorers = {"prototype": NearestPrototype(means), "cosine": NearestPrototype(means, "cosine")}
    samples = trials(data, contract)
    return Source(
        contract=contract,
        method=METHOD,
        hyper={},
        backbone=backbone,
        round=0,
        net=net,
        weights=Tensors({n: t.detach().numpy() for n, t in net.weights().items()}),
        scorers=scorers,
        calibration=samples.calibration,
        check=samples.check,
    )


# Through the module that is exported, so that the means lie where the graph will put their samples.
def _embedded(net: FleetNet, contract: Contract, x: NDArray[Any]) -> Floats:
    embedder = Embedder(net, contract.input, Reading("prototypes"))
    with torch.no_grad():
        blocks = [
            embedder(torch.from_numpy(x[at : at + AT_ONCE])).numpy()
            for at in range(0, len(x), AT_ONCE)
        ]
    features: Floats = np.concatenate(blocks)
    return features
