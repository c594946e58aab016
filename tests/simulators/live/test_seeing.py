"""The laboratory's devices that see through a fleet's bundle say what a fleet's own would."""

from dataclasses import replace

import numpy as np

from edge_agent.inference.classifier import Classifier
from protofleet.budget.private import CENTRE, SUMS, folded
from simulators.live import seeing
from simulators.run.config import BudgetOptions
from simulators.run.setup import prepare
from tests.networks import extractor_bundle


def test_a_device_says_its_samples_through_the_bundle_in_its_first_round(small_lab, tmp_path):
    bundle = tmp_path / "x.pfb"
    extractor_bundle(bundle)
    width = Classifier(bundle).bundle.manifest.embedding
    setup = prepare(replace(small_lab("fleet", agents=2, rounds=2), budget=BudgetOptions(8.0)))
    contract = replace(setup.contract, embedding=width)
    shape = Classifier(bundle).bundle.manifest.input.shape
    setup = replace(
        setup, data=replace(setup.data, x=np.zeros((len(setup.data.x), *shape), np.uint8))
    )
    devices = seeing.devices(setup, contract, bundle)
    assert list(devices) == setup.agents
    for shard in setup.partition.shards:
        device = devices[shard.agent]
        device.receive(0, {}, {})
        sums = folded({SUMS: device.work(1)[SUMS]})
        assert sums[CENTRE].weights.tolist() == [len(shard.train)]
