"""A lot is a number that nobody chooses, and the same wherever it is computed."""

from dataclasses import replace

import pytest

from protofleet.contract import Contract, Input
from protofleet.errors import WireError
from protofleet.exchange.lots import Lots, lot, read_lots

CONTRACT = Contract("orchard", "run-1", 42, ("apple",), Input("vector", (3,)), 4)


def test_a_lot_is_what_the_wire_says_it_is():
    # docs/wire.md#who-is-asked, for clients in other languages
    assert lot(CONTRACT, 3, "camera-07") == 2026157271024228795


def test_a_lot_is_of_a_run_a_round_and_a_device():
    others = [
        lot(replace(CONTRACT, seed=43), 3, "camera-07"),
        lot(replace(CONTRACT, run="run-2"), 3, "camera-07"),
        lot(CONTRACT, 4, "camera-07"),
        lot(CONTRACT, 3, "camera-08"),
    ]
    assert len({lot(CONTRACT, 3, "camera-07"), *others}) == 5
    # Of the rest of the agreement it is not.
    assert lot(replace(CONTRACT, fleet="grove"), 3, "camera-07") == lot(CONTRACT, 3, "camera-07")


def test_the_bar_is_the_highest_lot_that_is_asked():
    own = lot(CONTRACT, 3, "camera-07")
    assert Lots(CONTRACT, 3, own).ask("camera-07")
    assert not Lots(CONTRACT, 3, own - 1).ask("camera-07")


@pytest.mark.parametrize("bar", [-1, 0.5, True, "7", []])
def test_what_is_no_bar_is_an_error(bar):
    with pytest.raises(WireError, match=r"round\.body\.bar"):
        read_lots({"bar": bar}, CONTRACT, 3)


def test_an_announcement_without_a_bar_has_no_lots():
    assert read_lots({}, CONTRACT, 3) is None
    assert read_lots({"bar": 7}, CONTRACT, 3) == Lots(CONTRACT, 3, 7)
