"""`protofleet soak`: which cases are played, and how it ends when one of them fails."""

from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from protofleet.errors import UsageError
from simulators.cli.soak_cmd import soak
from simulators.databases import server
from simulators.faults import soak as long_form
from simulators.faults.cases import by_name
from simulators.faults.soak import AttemptResult


@pytest.fixture
def call(monkeypatch):
    """The command with cases that end at once; those of a seed above 1 fail."""
    monkeypatch.setattr(long_form, "startable_brokers", lambda: ["embedded"])
    monkeypatch.setattr(
        long_form,
        "run_case",
        lambda case, broker, seed, server=None: AttemptResult(
            case.name,
            broker,
            seed,
            1.5,
            "as it should",
            "Stuck: there" if seed > 1 else "",
            "/left",
            "sqlite" if server is None else "postgresql",
        ),
    )
    return lambda *words: CliRunner().invoke(soak, words)


def test_every_case_is_listed_with_what_it_does(call):
    lines = call("--list").stdout.splitlines()
    for line, name in zip(lines, by_name(), strict=True):
        assert line.startswith(f"{name}  ")
        assert line.removeprefix(name).strip()


def test_only_the_cases_that_are_named_are_played(call):
    run = call("--case", "clocks jump", "--seed", "0", "--seed", "1")
    assert run.exit_code == 0
    assert [line.partition(" s  ")[2] for line in run.stderr.splitlines()] == [
        "clocks jump (embedded, seed 0): as it should",
        "clocks jump (embedded, seed 1): as it should",
    ]


def test_a_failure_is_the_exit_code_and_the_command_that_repeats_it(call):
    run = call("--case", "clocks jump", "--seed", "7")
    assert run.exit_code == 1
    again = "protofleet soak --case 'clocks jump' --broker embedded --seed 7"
    assert f"  again: {again}\n  its files: /left" in run.stdout


def test_a_case_that_does_not_exist_is_refused(call):
    assert isinstance(call("--case", "earthquake").exception, UsageError)


def test_journals_on_a_server_are_said_where_it_failed(call, monkeypatch):
    @contextmanager
    def running_server():
        yield object()

    monkeypatch.setattr(server, "running_server", running_server)
    run = call("--case", "clocks jump", "--seed", "7", "--journal", "postgresql")
    assert "--broker embedded --seed 7 --journal postgresql\n" in run.stdout
    run = call("--case", "power loss at the coordinator", "--journal", "postgresql")
    assert run.stdout.splitlines()[-1].split() == ["in", "all", "0", "0", "0"]
