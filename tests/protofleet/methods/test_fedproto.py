"""FedProto against numbers worked out by hand."""

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedproto
from protofleet.recipe import Batch, Features, Turn
from protofleet.toolbox.access import as_given
from protofleet.values.prototypes import Prototypes
from simulators.run.setup import prepare

CONTRACT = Contract("f", "r", 0, ("a", "b", "c"), Input("vector", (2,)), 2)


class Identity:
    """A network whose embedding is its input and whose logits are zero: CE is log 3."""

    def features(self, x):
        return x, x

    def head(self, z):
        return torch.zeros(len(z), 3) + 0 * z.sum()


def turn(hyper=None):
    return Turn(CONTRACT, hyper or fedproto.Hyper(), 2)


def loss(x, y, prototypes, lam=1.0):
    given = {k: torch.from_numpy(v) for k, v in as_given(prototypes, 3, 2).items()}
    batch = Batch(torch.tensor(x, requires_grad=True), torch.tensor(y))
    value = fedproto.loss(Identity(), batch, given, fedproto.Hyper(lam=lam))
    value.backward()
    return float(value.detach()), batch.x.grad


def test_the_loss_is_cross_entropy_plus_the_mean_squared_gap():
    # Two samples: (1, 0) against (0, 0) gives 1 + 0; (2, 2) against (1, 4) gives 1 + 4. Mean over 2
    # × 2 is 6 / 4.
    value, gradient = loss(
        [[1.0, 0.0], [2.0, 2.0]], [0, 1], Prototypes([0, 1], [[0.0, 0.0], [1.0, 4.0]])
    )
    assert value == pytest.approx(np.log(3) + 6 / 4)
    assert gradient.tolist() == [[0.5, 0.0], [0.5, -1.0]]


def test_a_sample_whose_class_nobody_knows_is_not_pulled_but_counts_in_the_mean():
    value, gradient = loss([[1.0, 0.0], [2.0, 2.0]], [0, 2], Prototypes([0], [[0.0, 0.0]]), lam=2.0)
    assert value == pytest.approx(np.log(3) + 2 * 1 / 4)
    assert gradient[1].tolist() == [0, 0]


def test_without_prototypes_it_is_cross_entropy():
    assert loss([[1.0, 0.0]], [0], None)[0] == pytest.approx(np.log(3))


def upload(agent, classes, vectors, counts):
    return Upload(agent, 2, "", {"prototypes": Prototypes(classes, vectors, counts)})


UPLOADS = [
    upload("a", [0, 1], [[1.0, 1.0], [2.0, 0.0]], [1, 10]),
    upload("b", [0], [[3.0, 5.0]], [3]),
]


@pytest.mark.parametrize(("weighted", "first"), [(False, [2.0, 3.0]), (True, [2.5, 4.0])])
def test_fusion_is_the_plain_mean_over_holders_or_weighted_by_counts(weighted, first):
    state = fuse_round(
        fedproto.recipe, turn(fedproto.Hyper(weighted=weighted)), GlobalState(), UPLOADS
    )
    fused = state.shared["prototypes"]
    assert fused.classes.tolist() == [0, 1]
    assert fused.vectors.tolist() == [first, [2.0, 0.0]]


def test_a_class_nobody_sent_keeps_its_prototype():
    before = GlobalState(shared={"prototypes": Prototypes([1, 2], [[9.0, 9.0], [7.0, 7.0]])})
    fused = fuse_round(fedproto.recipe, turn(), before, UPLOADS).shared["prototypes"]
    assert fused.classes.tolist() == [0, 1, 2]
    assert fused.vectors[2].tolist() == [7, 7]


def test_with_buckets_one_of_four_that_lies_moves_nothing():
    honest = [upload(a, [0, 1], [[1.0, 0.1 * i], [2.0, 4.0]], [3, 4]) for i, a in enumerate("abc")]
    rogue = upload("d", [0, 1, 2], [[-90.0, 90.0], [50.0, 0.0], [7.0, 7.0]], [900, 900, 900])
    hyper = fedproto.Hyper(buckets=512)
    fused = fuse_round(fedproto.recipe, turn(hyper), GlobalState(), [*honest, rogue])
    alone = fuse_round(fedproto.recipe, turn(), GlobalState(), honest)
    rows = fused.shared["prototypes"]
    assert rows.only([0, 1]) == alone.shared["prototypes"]
    assert rows.only([2]).vectors.tolist() == [[7.0, 7.0]]  # of which nobody else speaks


def test_a_class_of_too_few_samples_is_not_spoken_of(small_lab):
    sent = {}
    for minimum in (1, 8):
        setup = prepare(small_lab("fedproto", (f"minimum={minimum}",)))
        agent = setup.agent(setup.partition.shards[0], setup.context())
        agent.receive(0, {}, {})
        sent[minimum] = agent.work(1)["prototypes"]
    enough = sent[1].counts >= 8
    assert 0 < enough.sum() < len(enough)
    assert sent[8] == sent[1].only(sent[1].classes[enough])


class Learned:
    """A device with ten samples each of two classes and one of a third."""

    samples = 21

    def features(self):
        high = np.float32([[0, 0]] * 10 + [[4, 0]] * 10 + [[9, 9]])
        return Features(high, high, np.repeat([0, 1, 2], [10, 10, 1]))


def test_a_guarded_device_believes_its_own_mean_where_the_fleets_is_another_class():
    guarded = turn(fedproto.Hyper(guard=True, minimum=5))
    near = {"prototypes": Prototypes([0, 1, 2], [[1.0, 0.0], [3.0, 0.0], [0.0, 0.0]])}
    assert fedproto.believed(guarded, Learned(), near) == near["prototypes"]
    once = {"prototypes": Prototypes([0, 1], [[9.0, 0.0], [3.0, 0.0]])}
    assert fedproto.believed(guarded, Learned(), once) == once["prototypes"]
    swapped = {"prototypes": Prototypes([0, 1, 2], [[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]])}
    rows = fedproto.believed(guarded, Learned(), swapped)
    assert rows == Prototypes([0, 1, 2], [[0.0, 0.0], [4.0, 0.0], [0.0, 0.0]])
    assert fedproto.believed(turn(), Learned(), swapped) == swapped["prototypes"]


def test_a_guarded_device_classifies_by_its_own_means_where_they_tell_its_samples_apart_better():
    guarded = turn(fedproto.Hyper(guard=True, minimum=5))
    # Half of its classes are another's: too few for it to doubt what it trains on.
    copied = {"prototypes": Prototypes([0, 1, 2], [[4.0, 0.1], [4.0, 0.0], [7.0, 7.0]])}
    assert fedproto.believed(guarded, Learned(), copied) == copied["prototypes"]
    rows = fedproto.trusted(guarded, Learned(), copied)
    assert rows == Prototypes([0, 1, 2], [[0.0, 0.0], [4.0, 0.0], [7.0, 7.0]])
    near = {"prototypes": Prototypes([0, 1, 2], [[1.0, 0.0], [3.0, 0.0], [0.0, 0.0]])}
    assert fedproto.trusted(guarded, Learned(), near) == near["prototypes"]
    elsewhere = {"prototypes": Prototypes([7], [[1.0, 0.0]])}
    assert fedproto.trusted(guarded, Learned(), elsewhere) == elsewhere["prototypes"]
    assert fedproto.trusted(guarded, Learned(), {}) is None
    assert fedproto.trusted(turn(), Learned(), copied) == copied["prototypes"]
