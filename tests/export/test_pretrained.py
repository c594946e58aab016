"""An extractor that no fleet trained: its prototypes are the means of the samples it is given."""

import numpy as np
import pytest
import torch

from edge_agent.networks.net import build_net
from export.pretrained import AT_ONCE, from_weights
from export.writer import Wanted, export
from protofleet.contract import Contract
from protofleet.errors import DataError
from tests.bundles import digits, embedded


@pytest.fixture
def weights(tmp_path):
    data = digits()
    net = build_net(Contract("f", "r", 0, data.classes, data.input, 64), "mlp", {}, 11)
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    return str(tmp_path / "weights.pt")


def test_its_prototypes_are_the_means_of_the_training_samples(weights):
    data = digits()
    assert data.n_train > AT_ONCE
    source = from_weights(weights, "mlp", data, "orchard")
    features = embedded(source, data.x[: data.n_train])
    points = source.scorers["prototype"].prototypes
    for label in range(10):
        mean = features[data.y[: data.n_train] == label].mean(0)
        assert np.allclose(points.vectors[label], mean, atol=1e-4)
    assert points.counts.sum() == data.n_train


def test_the_weights_are_the_files_and_nothing_in_it_learns(weights):
    source = from_weights(weights, "mlp", digits(), "orchard")
    stored = torch.load(weights, weights_only=True)
    for name, array in source.weights.arrays.items():
        if name.startswith("backbone."):
            assert np.array_equal(array, stored[name].numpy()), name
    assert not any(weight.requires_grad for weight in source.net.backbone.parameters())


def test_a_bundle_of_it_is_the_fleets_and_belongs_to_the_extractor(weights):
    exported = export(from_weights(weights, "mlp", digits(), "orchard"), Wanted(freeze=True))
    assert (exported.manifest.fleet, exported.manifest.method) == ("orchard", "pretrained")
    assert exported.manifest.lineages[0].startswith("extractor:")


def test_weights_of_another_network_are_one_line(weights):
    with pytest.raises(DataError, match="do not fit backbone 'mlp5'"):
        from_weights(weights, "mlp5", digits(), "orchard")
