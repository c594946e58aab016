"""Options made from settings: names, words and checks are the dataclass's, and people's command
lines keep working.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import click
import pytest
from click.testing import CliRunner

from coordinator.cli import coordinator
from edge_agent.cli import agent
from protofleet.cli.options import SettingFlags, options_of, settings_of
from protofleet.errors import SettingError
from protofleet.settings.fields import setting

HELP = Path(__file__).parent / "help"
PROGRAMS = {"coordinator": coordinator, "edge-agent": agent}


@dataclass(frozen=True)
class Pace:
    lr_decay: float = setting(1.0, "how fast it falls", low=0, high=1)
    kind: Literal["slow", "fast"] = setting("slow", "how")
    warm: bool = setting(False, "begin gently")
    most: int | None = setting(None, "at most")


@dataclass(frozen=True)
class Service:
    pace: Pace = field(default_factory=Pace)
    place: Pace = field(default_factory=Pace)


def called(decorate, words):
    """The keywords that a command with these options is called with."""
    calls = []

    @click.command()
    @decorate
    def command(**values):
        calls.append(values)

    outcome = CliRunner().invoke(command, words, standalone_mode=False)
    if outcome.exception is not None:
        raise outcome.exception
    return calls[0]


def test_every_field_is_an_option_and_comes_back_checked():
    values = called(options_of(Pace), ["--lr-decay", "0.5", "--kind", "fast", "--warm"])
    values["other"] = 1
    assert settings_of(Pace, values) == Pace(0.5, "fast", warm=True)
    assert values == {"other": 1}  # the rest is the command's own
    assert settings_of(Pace, called(options_of(Pace), [])) == Pace()
    with pytest.raises(SettingError, match="lr_decay: 2"):
        settings_of(Pace, called(options_of(Pace), ["--lr-decay", "2"]))


def test_what_is_left_out_is_no_option():
    with pytest.raises(click.NoSuchOption):
        called(options_of(Pace, leave_out=("kind",)), ["--kind", "fast"])


def test_flags_of_a_service_are_texts_by_section_and_only_those_that_were_given():
    flags = SettingFlags(Service, ("pace.lr_decay", "place.kind"))
    assert flags.layer(called(flags, ["--lr-decay", "often"])) == {"pace": {"lr_decay": "often"}}
    assert flags.layer(called(flags, ["--kind", ""])) == {"place": {"kind": ""}}
    assert flags.layer(called(flags, [])) == {}


@pytest.mark.parametrize(
    "command", ["coordinator serve", "coordinator init", "edge-agent run", "edge-agent init"]
)
def test_the_help_of_a_service_stays_as_people_know_it(command, monkeypatch):
    program, verb = command.split()
    # A command keeps its help option from the first time that it is called in a process, whoever
    # called it: as other tests do, by itself.
    with_help = PROGRAMS[program].commands[verb]
    monkeypatch.setattr(with_help, "_help_option", None, raising=False)
    words = CliRunner().invoke(
        PROGRAMS[program], [verb, "--help"], prog_name=program, terminal_width=78
    )
    assert words.output == (HELP / f"{program}-{verb}.txt").read_text()


@pytest.mark.parametrize(
    ("program", "file"), [("coordinator", "fleet.toml"), ("edge-agent", "agent.toml")]
)
def test_init_writes_the_file_people_know(program, file, tmp_path):
    path = tmp_path / file
    assert CliRunner().invoke(PROGRAMS[program], ["init", str(path)]).exit_code == 0
    assert path.read_text() == (HELP / file).read_text()
