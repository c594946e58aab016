"""A live fleet under fire, in short: every case once or a few times. `make soak` tries them with
many seeds.

Each plays on a broker of its own, and the state it ends in is the laboratory's by the journal's
schedule; where nobody was lost, the undisturbed run's.
"""

import os

import pytest

from protofleet.mqtt.broker import mosquitto
from simulators.faults import smalldisk
from simulators.faults.case import Attempt
from simulators.faults.cases import by_name

MOSQUITTO = {
    "real devices": (1,),
    "two hundred at once": (0,),
    "coordinator killed": (8, 30, 45),
    "coordinator killed, a late device": (12,),
    "coordinator killed, asynchronous": (4,),
    "device killed": (18,),
    "broker killed": (1,),
    "everything killed": (0,),
    "connections cut": (0,),
    "devices cut off": (2,),
    "unfaithful delivery": (0,),
    "no room for the journal": (1,),
    "no room for the outbox": (4,),
    "no room to begin with": (0,),
    "power loss at the coordinator": (3,),
    "power loss everywhere": (1,),
    "power loss at a device": (1,),
    "second coordinator, same directory": (0,),
    "second coordinator, another directory": (0,),
    "second coordinator, a copy": (0,),
    "second coordinator, at the same moment": (1,),
    "garbage at line rate": (0,),
    "clocks jump": (0,),
}
EMBEDDED = {
    "coordinator killed": (3,),
    "device killed": (5,),
    "broker killed": (1,),
    "second coordinator, same directory": (0,),
}


def chosen():
    """Every one of them, as pytest takes it."""
    for broker, table in (("mosquitto", MOSQUITTO), ("embedded", EMBEDDED)):
        for name, seeds in table.items():
            for seed in seeds:
                yield pytest.param(
                    by_name()[name], broker, seed, id=f"{name}-{broker}-{seed}".replace(" ", "-")
                )


@pytest.mark.parametrize(("case", "broker", "seed"), list(chosen()))
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    if broker == "mosquitto" and mosquitto.find() is None:
        pytest.skip("mosquitto is not installed")
    if case.root and not smalldisk.possible() and not os.environ.get("CI"):
        pytest.skip("it mounts a file system, which takes root")
    assert case.run(Attempt(tmp_path, seed, broker))


def test_every_case_is_here():
    assert set(by_name()) - set(MOSQUITTO) == {
        "one device cut off",
        "coordinator cut off",
    }  # these take long
