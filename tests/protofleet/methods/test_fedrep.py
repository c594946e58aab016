"""FedRep: the head first, then the extractor under it; what is shared is FedPer's."""

import numpy as np
import torch

from edge_agent.training.batches import SampleTensors
from edge_agent.training.phases import run_phases
from edge_agent.training.step import Stepper
from protofleet.methods import fedper, fedrep
from protofleet.recipe import Turn
from tests.protofleet.methods import devices

TURN = Turn(devices.CONTRACT, fedrep.Hyper(head_epochs=3), 1, "one")


def moved(before, after):
    """The modules of which some weight is another."""
    return {
        name.split(".")[0]
        for name, array in after.arrays.items()
        if not np.array_equal(array, before[name])
    }


def test_the_head_learns_with_the_extractor_held_still_and_then_the_other_way_round():
    me, samples = devices.device(1), devices.batch(20)
    data = SampleTensors(samples.x, samples.y)
    stepper = Stepper(me.net, TURN.contract.numerics)
    for phase, module in zip(fedrep.train(TURN, me, {}), ("head", "backbone"), strict=True):
        before = me.weights()
        run_phases(stepper, [phase], data, TURN, module)
        assert moved(before, me.weights()) == {module}


def test_the_head_has_as_many_epochs_as_it_is_told_and_the_extractor_the_fleets():
    first, second = fedrep.train(TURN, devices.device(1), {})
    assert (first.epochs, second.epochs) == (3, None)
    assert fedrep.Hyper().head_epochs == 10  # the paper's


def test_a_head_trained_longer_fits_better_before_the_extractor_moves():
    def fit(epochs):
        me, samples = devices.device(1), devices.batch(40)
        turn = Turn(devices.CONTRACT, fedrep.Hyper(head_epochs=epochs), 1, "one")
        head, _ = fedrep.train(turn, me, {})
        data, stepper = SampleTensors(samples.x, samples.y), Stepper(me.net, turn.contract.numerics)
        run_phases(stepper, [head], data, turn, "head")
        with torch.no_grad():
            return float(head.loss(me.net, samples, {}, turn.hyper))

    assert fit(10) < fit(1)


def test_what_is_sent_is_fedpers():
    me = devices.device(1)
    assert fedrep.recipe.summarise(TURN, me, {}) == fedper.summarise(TURN, me, {})
