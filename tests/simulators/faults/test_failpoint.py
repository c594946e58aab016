"""A program dies at its failpoint that was chosen, and not before."""

import subprocess
import sys

import pytest

from protofleet.errors import UsageError
from simulators.faults import soak
from simulators.faults.case import Attempt
from simulators.faults.cases import deaths
from simulators.faults.failpoint import Failpoint, resolve
from simulators.faults.testbed import Stuck


def test_a_failpoint_is_written_as_it_is_read():
    text = "coordinator.journal.journal:Journal.commit:leave:7"
    assert str(Failpoint.parse(text)) == text


@pytest.mark.parametrize("text", ["", "a:b:c:1", "a:b:enter:x", "a:b:enter"])
def test_what_is_no_failpoint_is_said(text):
    with pytest.raises(UsageError):
        Failpoint.parse(text)


@pytest.mark.parametrize(
    ("failpoint", "code"),
    [("coordinator.config:as_toml:enter:1", -9), ("coordinator.config:as_toml:enter:2", 0)],
)
def test_it_dies_when_the_function_is_entered_so_often(tmp_path, failpoint, code):
    path = tmp_path / "fleet.toml"
    command = [
        sys.executable,
        "-m",
        "simulators.faults.failpoint",
        failpoint,
        "coordinator",
        "init",
        str(path),
    ]
    assert subprocess.run(command, check=False, capture_output=True).returncode == code
    assert path.exists() == (code == 0)


@pytest.mark.parametrize(
    "text",
    [
        "coordinator.core:Core._fused:enter:1",  # a misspelt function
        "coordinator.cores:Core._fuse:enter:1",  # a misspelt module
        "coordinator.core:Core:enter:1",  # a class is never entered
        "coordinator.core:Core._fuse.inner:enter:1",
    ],
)
def test_a_name_that_stands_for_no_function_is_refused_before_the_program_starts(text, tmp_path):
    path = tmp_path / "fleet.toml"
    with pytest.raises(UsageError, match="is no instant"):
        resolve(Failpoint.parse(text))
    command = [
        sys.executable,
        "-m",
        "simulators.faults.failpoint",
        text,
        "coordinator",
        "init",
        str(path),
    ]
    assert subprocess.run(command, check=False, capture_output=True).returncode not in (0, -9)
    assert not path.exists()


@pytest.mark.parametrize(
    ("package", "table"), [("coordinator", deaths.COORDINATOR), ("edge_agent", deaths.DEVICE)]
)
def test_every_failpoint_of_the_sweep_resolves(package, table):
    for seed in range(2 * len(table)):
        chosen = deaths.draw_failpoint(package, table, seed)
        resolve(Failpoint.parse(str(chosen)))


def test_a_case_fails_whose_first_death_never_comes(tmp_path, monkeypatch):
    never = Failpoint.of(deaths.Core.recover, "enter", 10_000)
    monkeypatch.setattr(deaths, "draw_failpoint", lambda *drawn: never)
    with pytest.raises(Stuck, match="before the instant"):
        deaths.coordinator_killed(Attempt(tmp_path, 0, soak.startable_brokers()[0]))
