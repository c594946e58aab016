"""Where a device's settings come from when a command is called: flags before pairs, before the
environment, before the file.
"""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edge_agent.cli.common import device_options, settings
from edge_agent.config import host_name
from protofleet.errors import SettingError


@pytest.fixture
def called(tmp_path, monkeypatch):
    """The configuration of a command that was called with these words, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def call(*words, **environ):
        found = []

        @click.command()
        @device_options
        def command(file, **flags):
            found.append(settings(file, flags))

        outcome = CliRunner(env=environ).invoke(command, words, standalone_mode=False)
        if outcome.exception is not None:
            raise outcome.exception
        return found[0]

    return call


def test_without_anything_there_are_defaults_and_a_name(called):
    config = called()
    assert config.agent.id == host_name()
    assert config.broker.url == "mqtt://127.0.0.1:1883"
    assert config.agent.data_dir == "agent-data"


def test_the_nearer_to_the_call_the_stronger(called, tmp_path):
    (tmp_path / "agent.toml").write_text('[fleet]\nname = "file"\n[limits]\nnice = 1\n')
    assert (called().fleet.name, called().limits.nice) == ("file", 1)
    environ = {"PROTOFLEET_FLEET_NAME": "environment", "PROTOFLEET_LIMITS_NICE": "2"}
    config = called("--set", "limits.nice=3", **environ)
    assert (config.fleet.name, config.limits.nice) == ("environment", 3)
    assert called("--fleet", "flag", "--set", "fleet.name=pair", **environ).fleet.name == "flag"


def test_every_flag_ends_up_where_it_belongs(called):
    words = "--id a --data-dir d --log-format json --broker ws://b --credentials c --fleet f"
    config = called(*words.split(), "--ca", "authority.pem", "--data", "digits")
    assert (config.agent.id, config.agent.data_dir, config.agent.log_format) == ("a", "d", "json")
    broker = config.broker
    assert (broker.url, broker.credentials, broker.ca) == ("ws://b", "c", "authority.pem")
    assert (config.fleet.name, config.data.source) == ("f", "digits")


def test_another_file_is_taken_instead_of_the_one_beside_us(called, tmp_path):
    (tmp_path / "agent.toml").write_text('[fleet]\nname = "here"\n')
    (tmp_path / "other.toml").write_text('[fleet]\nname = "there"\n')
    assert called("--config", "other.toml").fleet.name == "there"
    with pytest.raises(SettingError, match="No such file"):
        called("--config", "none.toml")


def test_a_mistake_is_the_same_wherever_it_is_made(called, tmp_path):
    words = "limits.nice: 30 is not within"
    with pytest.raises(SettingError, match=words):
        called("--set", "limits.nice=30")
    with pytest.raises(SettingError, match=words):
        called(PROTOFLEET_LIMITS_NICE="30")
    Path("agent.toml").write_text("[limits]\nnice = 30\n")
    with pytest.raises(SettingError, match=words):
        called()
    assert called("--set", "limits.nice=3").limits.nice == 3  # nobody asks for it any more
