"""FedTGP's fusion: what is trained, on what, and what of it leaves the coordinator."""

import numpy as np

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.exchange.state import GlobalState, Upload
from protofleet.methods import fedtgp
from protofleet.recipe import Turn
from protofleet.toolbox import trainable
from protofleet.values.prototypes import Prototypes

CONTRACT = Contract("f", "r", 0, ("a", "b", "c"), Input("vector", (2,)), 2)


def turn(round=1, **settings):
    return Turn(CONTRACT, fedtgp.Hyper(**settings), round)


def upload(agent, classes, vectors):
    return Upload(agent, 1, "", {"prototypes": Prototypes(classes, vectors)})


UPLOADS = [upload("a", [0, 2], [[1.0, 1.0], [-3.0, 0.0]]), upload("b", [0], [[2.0, 1.0]])]


def test_it_shares_the_prototypes_of_classes_that_were_sent_and_keeps_the_network():
    state = fuse_round(fedtgp.recipe, turn(), GlobalState(), UPLOADS)
    made = trainable.prototypes(state.server["trainable"].arrays)
    assert made.shape == (3, 2)
    assert state.shared["prototypes"].classes.tolist() == [0, 2]
    np.testing.assert_allclose(state.shared["prototypes"].vectors, made[[0, 2]], rtol=1e-3)


def test_training_goes_on_from_where_it_was():
    first = fuse_round(fedtgp.recipe, turn(), GlobalState(), UPLOADS)
    again = fuse_round(fedtgp.recipe, turn(2, server_epochs=0), first, UPLOADS)
    assert again.server["trainable"] == first.server["trainable"]
    on = fuse_round(fedtgp.recipe, turn(2), first, UPLOADS)
    assert on.server["trainable"] != first.server["trainable"]


def test_a_class_not_sent_this_time_is_still_shared():
    first = fuse_round(fedtgp.recipe, turn(), GlobalState(), UPLOADS)
    second = fuse_round(fedtgp.recipe, turn(2), first, [upload("c", [1], [[0.0, 5.0]])])
    assert second.shared["prototypes"].classes.tolist() == [0, 1, 2]


def test_prototypes_end_nearest_to_their_own_local_ones():
    state = fuse_round(fedtgp.recipe, turn(server_epochs=300, hidden=16), GlobalState(), UPLOADS)
    points = state.shared["prototypes"].vectors
    for sent in UPLOADS:
        local = sent.parts["prototypes"]
        nearest = np.linalg.norm(local.vectors[:, None] - points[None], axis=2).argmin(1)
        assert state.shared["prototypes"].classes[nearest].tolist() == local.classes.tolist()


def test_the_order_of_uploads_does_not_matter():
    one = fuse_round(fedtgp.recipe, turn(), GlobalState(), UPLOADS)
    assert one.sha256 == fuse_round(fedtgp.recipe, turn(), GlobalState(), UPLOADS[::-1]).sha256


def test_nobody_sent_changes_nothing():
    first = fuse_round(fedtgp.recipe, turn(), GlobalState(), UPLOADS)
    assert fuse_round(fedtgp.recipe, turn(2), first, []).sha256 == first.sha256
    nothing = upload("a", np.zeros(0, np.int64), np.zeros((0, 2)))
    assert fuse_round(fedtgp.recipe, turn(2), first, [nothing]).sha256 == first.sha256
