"""FedPer: extractors are averaged, heads stay."""

import numpy as np

from coordinator.uploads.fuse import fuse_round
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedper
from protofleet.recipe import Turn
from tests.protofleet.methods import devices

TURN = Turn(devices.CONTRACT, fedper.recipe.hyper(), 1)


def test_extractors_are_averaged_by_samples_and_every_head_stays_with_its_device():
    fleet = [devices.device(1, 30, "a"), devices.device(2, 10, "b")]
    before = [me.weights() for me in fleet]
    uploads = [Upload(me.agent, 1, "", fedper.summarise(TURN, me, {})) for me in fleet]
    state = fuse_round(fedper.recipe, TURN, GlobalState(), uploads)
    for me, own in zip(fleet, before, strict=True):
        fedper.recipe.receive(TURN, me, state.shared)
        for name, array in me.weights().arrays.items():
            shared = (30 * before[0][name] + 10 * before[1][name]) / 40
            expected = own[name] if name.startswith("head.") else shared
            np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-7, err_msg=name)


def test_nothing_of_the_head_leaves_the_device_hidden_layers_included():
    me = devices.device(1)
    names = set(fedper.summarise(TURN, me, {})["weights"].arrays)
    assert names == set(me.weights("backbone").arrays)
    assert "head.hidden1.weight" in me.weights().arrays
    assert not any(name.startswith("head.") for name in names)
