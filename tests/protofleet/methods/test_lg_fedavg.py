"""LG-FedAvg: heads are averaged, extractors stay and may differ."""

from dataclasses import replace

import numpy as np

from coordinator.uploads.fuse import fuse_round
from edge_agent.networks.net import build_net
from protofleet.contract import Input
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import lg_fedavg
from protofleet.recipe import Turn
from tests.protofleet.methods import devices

TURN = Turn(devices.CONTRACT, lg_fedavg.recipe.hyper(), 1)


def test_heads_are_averaged_by_samples_and_every_extractor_stays_with_its_device():
    fleet = [devices.device(1, 30, "a"), devices.device(2, 10, "b")]
    before = [me.weights() for me in fleet]
    uploads = [Upload(me.agent, 1, "", lg_fedavg.summarise(TURN, me, {})) for me in fleet]
    state = fuse_round(lg_fedavg.recipe, TURN, GlobalState(), uploads)
    for me, own in zip(fleet, before, strict=True):
        lg_fedavg.recipe.receive(TURN, me, state.shared)
        for name, array in me.weights().arrays.items():
            shared = (30 * before[0][name] + 10 * before[1][name]) / 40
            expected = shared if name.startswith("head.") else own[name]
            np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-7, err_msg=name)


def test_a_head_is_of_one_form_whatever_is_below_it():
    images = replace(devices.CONTRACT, input=Input("image", (28, 28, 1)))
    heads = [
        lg_fedavg.summarise(TURN, devices.NetDevice(build_net(images, backbone, {}, 0)), {})
        for backbone in ("lenet", "resnet8")
    ]
    one, two = (
        {name: array.shape for name, array in parts["weights"].arrays.items()} for parts in heads
    )
    assert one == two
    assert lg_fedavg.recipe.traits.mixed_backbones
