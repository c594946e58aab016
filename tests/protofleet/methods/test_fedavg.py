"""FedAvg against numbers worked out by hand, and against training in one place."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coordinator.uploads.fuse import fuse_round
from protofleet import registry
from protofleet.contract import Contract, Input
from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedavg, local
from protofleet.recipe import Batch, Turn
from protofleet.toolbox.summaries import sample_count
from protofleet.values.prototypes import Tensors
from tests.protofleet.methods import devices

TURN = Turn(Contract("f", "r", 0, ("a",), Input("vector", (2,)), 2), fedavg.Hyper(), 1)


def upload(agent, weight, samples):
    tensors = Tensors({"w": np.float32(weight), "s": np.float32(2 * weight)})
    return Upload(agent, 1, "", {"weights": tensors, "data": sample_count(samples)})


def test_fedavg_is_the_mean_weighted_by_samples():
    state = fuse_round(
        fedavg.recipe, TURN, GlobalState(), [upload("a", 1.0, 30), upload("b", 5.0, 10)]
    )
    assert float(state.shared["weights"]["w"]) == 2.0
    assert float(state.shared["weights"]["s"]) == 4.0


@given(
    st.lists(
        st.tuples(st.floats(-100, 100, width=32), st.integers(1, 10**6)), min_size=1, max_size=9
    )
)
def test_any_devices_average_as_numpy_has_it(sent):
    uploads = [upload(f"a{i}", weight, n) for i, (weight, n) in enumerate(sent)]
    state = fuse_round(fedavg.recipe, TURN, GlobalState(), uploads)
    weights, samples = zip(*sent, strict=True)
    expected = np.average(np.array(weights, np.float64), weights=samples)
    assert float(state.shared["weights"]["w"]) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_one_step_on_each_device_is_one_step_on_all_samples_together():
    # The paper's FedSGD: Σ_k (n_k/n)(w − η g_k) = w − η g, g the gradient of the pooled loss.
    def step(samples):
        me = devices.device(7)
        value = local.loss(me.net, samples, {}, local.Hyper())
        parameters = list(me.net.parameters())
        for weight, gradient in zip(
            parameters, torch.autograd.grad(value, parameters), strict=True
        ):
            weight.data -= 0.5 * gradient
        return me

    everything = devices.batch(24)
    uploads = []
    for agent, share in (("a", slice(0, 5)), ("b", slice(5, 8)), ("c", slice(8, 24))):
        mine = Batch(everything.x[share], everything.y[share])
        me = step(mine)
        me.samples = len(mine.y)
        uploads.append(Upload(agent, 1, "", fedavg.summarise(TURN, me, {})))
    averaged = fuse_round(fedavg.recipe, TURN, GlobalState(), uploads).shared["weights"]
    for name, expected in step(everything).weights().arrays.items():
        np.testing.assert_allclose(averaged[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_device_goes_on_from_the_fleets_weights_and_before_there_are_any_from_its_own():
    me, other = devices.device(1), devices.device(2)
    own = me.weights()
    fedavg.receive(TURN, me, {})
    assert me.weights() == own
    fedavg.receive(TURN, me, {"weights": other.weights()})
    assert me.weights() == other.weights() != own


@pytest.mark.parametrize("samples", [0, -3])
def test_an_upload_that_claims_no_samples_is_refused(samples):
    with pytest.raises(FusionError, match=r"data\.samples"):
        fedavg.fold(TURN, upload("a", 1.0, samples), 1)


@given(
    st.lists(
        st.tuples(st.floats(-100, 100, width=32), st.integers(1, 10**6)), min_size=1, max_size=9
    )
)
def test_unweighted_every_device_counts_once_whatever_it_has(devices_of):
    uploads = [upload(f"a{i}", weight, n) for i, (weight, n) in enumerate(devices_of)]
    turn = replace(TURN, hyper=fedavg.Hyper(weighted=False))
    state = fuse_round(fedavg.recipe, turn, GlobalState(), uploads)
    expected = np.mean([weight for weight, _ in devices_of], dtype=np.float64)
    assert float(state.shared["weights"]["w"]) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_methods_without_the_setting_weigh_by_samples():
    uploads = [upload("a", 1.0, 30), upload("b", 5.0, 10)]
    for name in ("fedprox", "moon"):
        recipe = registry.load(name)
        state = fuse_round(recipe, replace(TURN, hyper=recipe.hyper()), GlobalState(), uploads)
        assert float(state.shared["weights"]["w"]) == 2.0
