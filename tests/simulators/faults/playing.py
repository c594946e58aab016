"""The short form of a fault case: a few seeds on a broker of its own, and every promise kept.

The state a case ends in is the laboratory's by the journal's schedule; where nobody was lost, the
undisturbed run's. `make soak` tries them with many seeds.
"""

import os

import pytest

from protofleet.mqtt.broker import mosquitto
from simulators.faults import smalldisk
from simulators.faults.case import Attempt


def chosen(cases, mosquitto, embedded=None):
    """Seeds by the name of a case, as pytest takes them: (case, broker, seed)."""
    by_name = {case.name: case for case in cases}
    tables = (("mosquitto", mosquitto), ("embedded", embedded or {}))
    return [
        pytest.param(by_name[name], broker, seed, id=f"{name}-{broker}-{seed}".replace(" ", "-"))
        for broker, table in tables
        for name, seeds in table.items()
        for seed in seeds
    ]


def play(case, broker, seed, folder, server=None):
    """What the case says it tried."""
    if broker == "mosquitto" and mosquitto.find() is None:
        pytest.skip("mosquitto is not installed")
    if case.root and not smalldisk.possible() and not os.environ.get("CI"):
        pytest.skip("it mounts a file system, which takes root")
    return case.run(Attempt(folder, seed, broker, server=server))
