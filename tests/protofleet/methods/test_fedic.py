"""FedIC against numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.errors import DataError, FusionError, SettingError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedic
from protofleet.recipe import Batch, Features, Turn
from protofleet.toolbox import clusters
from protofleet.toolbox.access import as_given
from protofleet.values.prototypes import Head, Prototypes, Tensors
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare

CONTRACT = Contract("f", "r", 0, ("a", "b", "c"), Input("vector", (2,)), 2)


def turn(**settings):
    return Turn(CONTRACT, fedic.Hyper(**settings), 2)


def upload(agent, vectors, n, row):
    """A device whose features had mean 0 and variance 1 before; its head's rows are all `row`."""
    classes = sorted(vectors)
    return Upload(
        agent,
        2,
        "",
        {
            "prototypes": Prototypes(classes, [vectors[c] for c in classes], [n] * len(classes)),
            "before": Prototypes(classes, np.zeros((len(classes), 2)), [n] * len(classes)),
            "variance": Tensors({"variance": np.float32(1)}),
            "extractor": Tensors({"w": np.float32(row)}),
            "head": Head(classes, np.full((len(classes), 2), row), np.full(len(classes), -row)),
        },
    )


# In class 0 a and b look one way and c another; class 1 is b's alone.
SENT = [
    upload("a", {0: [1.0, 0.0]}, 10, 2.0),
    upload("b", {0: [5.0, 0.0], 1: [3.0, 3.0]}, 30, 6.0),
    upload("c", {0: [0.0, 4.0]}, 40, 10.0),
]


def test_means_and_head_rows_stay_within_a_cluster():
    state = fuse_round(fedic.recipe, turn(clusters=2), GlobalState(), SENT)
    assert state.shared["prototypes"].vectors.tolist() == [
        [2, 2],
        [3, 3],
    ]  # (10·1 + 30·5) / 80, 40·4 / 80
    assert float(state.shared["extractor"]["w"]) == pytest.approx((10 * 2 + 60 * 6 + 40 * 10) / 110)
    assert state.own["a"]["anchors"] == Prototypes([0], [[4, 0]])  # (10·1 + 30·5) / 40
    assert state.own["b"]["anchors"] == Prototypes([0, 1], [[4, 0], [3, 3]])
    assert state.own["c"]["anchors"] == Prototypes([0], [[0, 4]])
    # Equal statistics: halves. Alone: one's own.
    assert state.own["a"]["head"] == Head([0], [[4, 4]], [-4])
    assert state.own["b"]["head"] == Head([0, 1], [[4, 4], [6, 6]], [-4, -6])
    assert state.own["c"]["head"] == Head([0], [[10, 10]], [-10])


def test_one_cluster_is_everybody():
    own = fuse_round(fedic.recipe, turn(clusters=1), GlobalState(), SENT).own
    assert own["a"]["anchors"] == own["c"]["anchors"] == Prototypes([0], [[2, 2]])
    np.testing.assert_allclose(own["a"]["head"].bias, [-6], rtol=1e-6)


def test_anchors_are_the_clusters_where_one_has_the_class_and_global_elsewhere():
    everyone = Prototypes([0, 1, 2], [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    assert fedic.anchors({}) is None
    assert fedic.anchors({"prototypes": everyone}) == everyone
    mixed = fedic.anchors({"prototypes": everyone, "anchors": Prototypes([1], [[9.0, 9.0]])})
    assert mixed.vectors.tolist() == [[0, 0], [9, 9], [2, 2]]


class Identity:
    """A network whose embedding is its input and whose logits are zero: CE is log 3."""

    def features(self, x):
        return x, x

    def head(self, z):
        return torch.zeros(len(z), 3) + 0 * z.sum()


@pytest.mark.parametrize(("scale", "pull"), [("mean", (4 + 1) / 4), ("sum", (4 + 1) / 2)])
def test_formula_9_is_a_mean_over_samples_and_a_mean_or_a_sum_over_coordinates(scale, pull):
    given = {
        k: torch.from_numpy(v)
        for k, v in as_given(Prototypes([0, 1], [[0.0, 0.0], [1.0, 1.0]]), 3, 2).items()
    }
    batch = Batch(torch.tensor([[2.0, 0.0], [1.0, 2.0]]), torch.tensor([0, 1]))
    value = float(fedic.loss(Identity(), batch, given, fedic.Hyper(lam=0.5, scale=scale)))
    assert value == pytest.approx(np.log(3) + 0.5 * pull)


def test_without_combination_heads_stay_and_prototypes_only_sends_no_weights():
    kept = fuse_round(fedic.recipe, turn(combine="none"), GlobalState(), SENT)
    assert all(set(own) == {"anchors"} for own in kept.own.values())
    sent = [Upload(u.agent, 2, "", {"prototypes": u.parts["prototypes"]}) for u in SENT]
    bare = fuse_round(fedic.recipe, turn(prototypes_only=True, clusters=2), GlobalState(), sent)
    assert set(bare.shared) == {"prototypes"}
    assert bare.own["a"]["anchors"] == Prototypes([0], [[4, 0]])
    assert fuse_round(fedic.recipe, turn(prototypes_only=True), bare, []).sha256 == bare.sha256


def test_a_device_that_did_not_send_keeps_its_anchors_and_head():
    first = fuse_round(fedic.recipe, turn(clusters=2), GlobalState(), SENT)
    second = fuse_round(fedic.recipe, turn(clusters=2), first, SENT[:1])
    assert second.own["b"] == first.own["b"]
    assert second.own["a"]["anchors"] == Prototypes([0], [[1, 0]])


def test_rows_of_other_classes_than_the_prototypes_are_refused():
    parts = {**SENT[1].parts, "head": Head([0, 2], np.ones((2, 2)), [0.0, 0.0])}
    with pytest.raises(FusionError, match="head"):
        fedic.fold(turn(), Upload("b", 2, "", parts), 1)


def test_where_beta_is_learnt_a_device_gets_the_rows_of_its_mates_class_by_class():
    state = fuse_round(fedic.recipe, turn(clusters=2, combine="learnt"), GlobalState(), SENT)
    rows = {
        agent: [(head.classes.tolist(), head.bias.tolist()) for head in clusters.mates(own)]
        for agent, own in state.own.items()
    }
    # Of class 0 a and b are mates and c is alone; class 1 is b's alone.
    assert rows == {
        "a": [([0], [-2]), ([0], [-6])],
        "b": [([0], [-2]), ([0, 1], [-6, -6])],
        "c": [([0], [-10])],
    }
    assert not any("head" in own for own in state.own.values())


class WithRows:
    """A device whose validation samples are points at the corners, and whose rows are loaded."""

    def __init__(self, x, y):
        self.seen = Features(np.float32(x), np.zeros((len(x), 3), np.float32), np.array(y))
        self.loaded = {"head.out.weight": np.zeros((3, 2)), "head.out.bias": np.zeros(3)}

    def validation(self):
        return self.seen

    def weights(self, *modules):
        return Tensors(self.loaded)

    def load(self, tensors):
        self.loaded |= tensors.arrays


def test_beta_is_learnt_on_validation_samples_and_unhelpful_mates_get_none():
    right = Head([0, 1], [[5.0, 0.0], [0.0, 5.0]], [0.0, 0.0])
    wrong = Head([0, 1], [[-5.0, 0.0], [0.0, -5.0]], [0.0, 0.0])
    me = WithRows([[1, 0], [0, 1]] * 10, [0, 1] * 10)
    state = {"mate.0": right, "mate.1": wrong}
    fedic.receive(turn(combine="learnt"), me, state)
    np.testing.assert_allclose(me.loaded["head.out.weight"], [[5, 0], [0, 5], [0, 0]], atol=1e-6)
    # By default nothing is learnt on arrival, whatever the state holds.
    other = WithRows([[1, 0]], [0])
    fedic.receive(turn(), other, state)
    assert not other.loaded["head.out.weight"].any()
    for behind in ("head_relu", "unit_logits"):
        contract = replace(CONTRACT, **{behind: True})
        with pytest.raises(SettingError, match="nothing behind the rows"):
            fedic.receive(Turn(contract, fedic.Hyper(combine="learnt"), 2), me, state)


def test_in_the_laboratory_learnt_rows_err_less_on_validation_samples(small_lab):
    def of(combine, validation=0.3):
        config = small_lab("fedic", (f"combine={combine}", "clusters=1"), rounds=4)
        partition = replace(config.partition, validation=validation)
        return run(prepare(replace(config, partition=partition)), LabOptions(), lambda row: None)

    learnt, none = of("learnt"), of("none")
    assert learnt.rows[-1].validation["head"] >= none.rows[-1].validation["head"]
    assert learnt.state.sha256 != none.state.sha256
    with pytest.raises(DataError, match=r"has no validation samples.*--validation"):
        of("learnt", validation=0.0)
