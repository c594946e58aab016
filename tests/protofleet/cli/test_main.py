"""An error is one line and an exit code that a program can act on; a traceback is for --debug."""

import sys

import click
import pytest

from protofleet.cli.main import main, run, umbrella
from protofleet.errors import FleetError, UsageError


@pytest.fixture
def leaves(monkeypatch, capsys):
    """How a command that does this ends: its exit code, and its lines on stderr."""

    def leave(function, *words):
        command = click.Command("it", callback=function, params=[click.Option(["--n"], type=int)])
        monkeypatch.setattr(sys, "argv", ["it", *words])
        with pytest.raises(SystemExit) as ended:
            run(command, "it")
        return ended.value.code, capsys.readouterr().err

    return leave


def raising(error):
    def function(n):
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (FleetError("it failed", "try again"), 1, "error: it failed; try again (failed)\n"),
        (UsageError("no such thing"), 2, "error: no such thing (usage)\n"),
        (click.Abort(), 130, "error: stopped\n"),
        (click.ClickException("as click says it"), 1, "error: as click says it\n"),
        (
            ModuleNotFoundError("No module", name="torch.nn"),
            1,
            "error: torch.nn is not installed; pip install 'protofleet[train]'\n",
        ),
    ],
)
def test_what_is_known_is_one_line_with_its_exit_code(leaves, error, code, line):
    assert leaves(raising(error)) == (code, line)


def test_wrong_words_end_in_two_and_name_the_help(leaves):
    code, line = leaves(lambda n: None, "--n", "many")
    assert code == 2
    assert line.endswith("see `it --help`\n")
    assert line.count("\n") == 1


def test_words_that_are_wrong_for_a_command_name_that_command_s_help(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["protofleet", "methods", "show"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.endswith("see `protofleet methods show --help`\n")


def test_debug_shows_where_it_happened_and_is_no_option_of_the_command(leaves):
    code, lines = leaves(raising(FleetError("it failed")), "--debug")
    assert code == 1
    assert "Traceback" in lines
    assert lines.endswith("error: it failed (failed)\n")


def test_what_a_command_returns_is_its_exit_code(leaves):
    assert leaves(lambda n: 4) == (4, "")
    assert leaves(lambda n: "text") == (0, "")


def test_what_nobody_expected_is_not_hidden(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["it"])
    for error in (RuntimeError("a mistake of ours"), ModuleNotFoundError("x", name="elsewhere")):
        with pytest.raises(type(error)):
            run(click.Command("it", callback=lambda e=error: raising(e)(None)), "it")


def test_every_installed_command_can_be_loaded():
    context = click.Context(umbrella)
    names = umbrella.list_commands(context)
    assert {"methods", "inspect", "broker"} <= set(names)
    assert all(umbrella.get_command(context, name) is not None for name in names)
    assert umbrella.get_command(context, "nothing") is None
