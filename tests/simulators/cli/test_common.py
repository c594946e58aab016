"""Options of the laboratory's commands become a configuration; one failure stops no other."""

import click
import pytest
from click.testing import CliRunner

from protofleet.errors import FleetError
from simulators.cli.common import config_of, fail_for, run_each, run_options
from simulators.run.config import LabConfig


@pytest.fixture
def configured():
    """The configuration that these words make."""
    configs = []

    @click.command()
    @run_options()
    def command(**values):
        configs.append(config_of(values))
        assert not values  # all of them are the configuration's

    def call(*words):
        assert CliRunner().invoke(command, words).exit_code == 0
        return configs[-1]

    return call


def test_no_words_are_the_defaults(configured):
    assert configured() == LabConfig()


def test_every_option_reaches_its_section(configured):
    config = configured("--alpha", "0.7", "--lr", "0.5", "--compile", "--seed", "3", "--set", "a=1")
    assert (config.partition.alpha, config.training.lr, config.run.seed) == (0.7, 0.5, 3)
    assert config.numerics.compile
    assert config.settings == ("a=1",)


def test_a_run_that_fails_stops_no_other(capsys):
    done = []

    def diverge():
        raise FleetError("it diverged")

    failed = run_each({"one": diverge, "two": lambda: done.append("two")})
    assert (failed, done) == (["one"], ["two"])
    assert capsys.readouterr().err == "\none: it diverged\n"
    with pytest.raises(FleetError, match="for the reasons above: one"):
        fail_for(failed)
    fail_for([])
