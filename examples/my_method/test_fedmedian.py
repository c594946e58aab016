import numpy as np
from fedmedian import Hyper, recipe

from coordinator.uploads.fuse import fuse_round
from protofleet.contract import Contract, Input
from protofleet.exchange.state import GlobalState, Upload
from protofleet.recipe import Turn
from protofleet.values.prototypes import Prototypes


def test_one_wild_device_moves_nothing_and_order_does_not_matter():
    contract = Contract("f", "r", 0, ("cat", "dog"), Input("vector", (2,)), embedding=2)
    turn = Turn(contract, Hyper(), 1)
    sent = [[0.0, 0.0], [0.5, 0.5], [9.0, 9.0]]
    uploads = [Upload(f"a{i}", 1, "", {"prototypes": Prototypes([1], [row])}) for i, row in enumerate(sent)]
    one = fuse_round(recipe, turn, GlobalState(), uploads)
    two = fuse_round(recipe, turn, GlobalState(), reversed(uploads))
    np.testing.assert_array_equal(one.shared["prototypes"].vectors, [[0.5, 0.5]])
    assert one.sha256 == two.sha256
    assert fuse_round(recipe, turn, one, []).sha256 == one.sha256
