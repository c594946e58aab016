"""`protofleet demo` says that fleet and laboratory agree only where they do."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from protofleet.exchange.state import GlobalState
from protofleet.values.prototypes import Prototypes
from simulators.cli.demo_cmd import demo
from simulators.live import fleet, ondevice
from simulators.run import rounds


@pytest.fixture
def played(monkeypatch):
    """The demo with a laboratory in the fleet's place, which ends in this state."""

    def play(change):
        monkeypatch.setattr(
            fleet,
            "run",
            lambda setup, folder, watch, broker: change(
                rounds.run(setup, rounds.LabOptions(), watch)
            ),
        )
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
    assert "agent-00's network and the fleet's prototypes in 12 kB" in run.stdout
    assert "33 of its 40 test images right" in run.stdout


def test_another_state_is_shown_as_another(played):
    other = GlobalState({"prototypes": Prototypes([0], [[1.0]])})
    run = played(lambda outcome: replace(outcome, state=other))
    assert "to the bit" not in run.stdout
    assert f"state {other.sha256[:16]}...; the laboratory ends in another: " in run.stdout
