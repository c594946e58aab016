"""One truth: a live fleet of processes over a real broker ends in the state of the laboratory, to
the bit.
"""

import pytest

from coordinator.journal.journal import Journal
from coordinator.service.replay import replayed
from protofleet.errors import FleetError
from simulators.live import fleet
from simulators.run import rounds
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.setup import prepare

GFPL = ("start=2", "interval=2", "threshold=1000")


def setup_of(method, *, settings=(), partition="dirichlet", **run):
    run = Run(
        **{"method": method, "agents": 3, "rounds": 3, "partition": partition, "seed": 3} | run
    )
    return prepare(LabConfig(run, PartitionOptions(alpha=0.3), settings=settings))


@pytest.mark.parametrize(
    ("method", "more", "broker"),
    [
        (
            "fedproto",
            {
                "agents": 2,
                "partition": "feature-skew",
                "backbone": "mixed",
                "test_on": "everyone",
            },
            "embedded",
        ),  # networks of their own
        ("fedic", {}, "mosquitto"),  # weights in chunks, an own part for every device
        (
            "gfpl",
            {"settings": GFPL, "participation": 0.6, "rounds": 4},
            "mosquitto",
        ),  # rounds without exchange
        (
            "grow",
            {"settings": ("train=1", "minimum=1"), "rounds": 5},
            "embedded",
        ),  # rounds of three kinds, and a verdict
    ],
)
def test_a_live_fleet_ends_in_the_laboratorys_state(tmp_path, method, more, broker):
    setup = setup_of(method, **more)
    live = fleet.run(setup, tmp_path, lambda row: None, broker)
    here = rounds.run(setup, rounds.LabOptions(), lambda row: None)
    assert live.state.sha256 == here.state.sha256
    assert live.rows[-1].accuracy == pytest.approx(here.rows[-1].accuracy)
    assert live.rows[-1].up_floats == here.rows[-1].up_floats
    assert live.rows[-1].paper_floats == here.rows[-1].paper_floats
    journal = Journal.read(tmp_path / "coordinator-data")
    assert {each.verdict for each in replayed(journal)} == {"same"}


def test_a_member_that_dies_is_named(tmp_path):
    setup = setup_of("fedproto")
    fleet.write(setup, tmp_path, "mqtt://127.0.0.1:1")
    (tmp_path / "agents" / "agent-01" / "agent.toml").write_text("[agent]\nidd = 3\n")
    words = r"agent-01 ended: error: unknown setting 'agent.idd'"
    with fleet.members(setup, tmp_path) as members, pytest.raises(FleetError, match=words):
        fleet._watched(setup, tmp_path, members, lambda row: None)


def test_toml_reads_back():
    import tomllib

    document = {"a": 1, "none": None, "t": {"x": [1.5, 2.0], "deep": {"on": True, "s": 'a"b'}}}
    assert tomllib.loads(fleet.toml(document)) == {
        "a": 1,
        "t": {"x": [1.5, 2.0], "deep": {"on": True, "s": 'a"b'}},
    }
