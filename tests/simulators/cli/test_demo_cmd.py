"""`protofleet demo` says that fleet and laboratory agree only where they do."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from protofleet.exchange.state import GlobalState
from protofleet.values.prototypes import Prototypes
from simulators.cli.demo_cmd import demo
from simulators.live import contributions, fleet, ondevice
from simulators.run import rounds


@pytest.fixture
def played(monkeypatch):
    """The demo with the laboratory's outcome in the fleet's place, and this state of the sums."""

    def play(change):
        outcomes = []

        def run(setup, folder, watch, broker):
            outcome = rounds.run(setup, rounds.LabOptions(), watch)
            row = replace(outcome.rows[-1], accuracy={"head": 0.9375}, up_bytes=84_000)
            outcomes.append(replace(outcome, rows=(row,)))
            return change(outcomes[-1])

        monkeypatch.setattr(fleet, "run", run)
        monkeypatch.setattr(contributions, "laboratory", lambda setup, at: outcomes[-1].state)
        monkeypatch.setattr(
            ondevice,
            "answer",
            lambda live, folder, agent: ondevice.DeviceAnswers(agent, 12_000, 33, 40),
        )
        return CliRunner().invoke(demo, ["--rounds", "1", "--agents", "2"])

    return play


def test_the_same_state_is_called_the_same(played):
    run = played(lambda outcome: outcome)
    assert "the laboratory ends in the same, to the bit" in run.stdout
    assert "42 kB a device: 93.75 % of all devices' test images right" in run.stdout
    assert "the fleet's extractor and classifier in 12 kB" in run.stdout
    assert "33 of agent-00's 40 test images right" in run.stdout


def test_another_state_is_shown_as_another(played):
    other = GlobalState({"prototypes": Prototypes([0], [[1.0]])})
    run = played(lambda outcome: replace(outcome, state=other))
    assert "to the bit" not in run.stdout
    assert f"state {other.sha256[:16]}...; the laboratory ends in another: " in run.stdout
