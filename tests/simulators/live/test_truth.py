"""The laboratory and a live fleet are the same where their hashes are, and only there."""

from dataclasses import replace

import pytest

from protofleet import registry
from protofleet.recipe import Turn
from simulators.live import fleet, truth
from simulators.run import rounds
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from simulators.run.setup import prepare


def elsewhere(change):
    """A fleet that is the laboratory, with another configuration."""

    def run(setup, folder, watch):
        assert folder.is_dir()
        return rounds.run(prepare(change(setup.config)), rounds.LabOptions(), watch)

    return run


def test_the_same_settings_end_in_the_same_state(monkeypatch):
    monkeypatch.setattr(fleet, "run", elsewhere(lambda config: config))
    compared = truth.compare_engines("fedproto", 3, 1)
    assert compared.same
    assert compared.lab == compared.fleet


def test_a_fleet_of_another_seed_is_told_apart(monkeypatch):
    monkeypatch.setattr(
        fleet, "run", elsewhere(lambda config: replace(config, run=replace(config.run, seed=9)))
    )
    assert not truth.compare_engines("fedproto", 3, 1).same


@pytest.mark.parametrize("method", [name for name in registry.names() if name != "local"])
def test_under_these_settings_every_method_exchanges_something_in_five_rounds(method):
    run = Run(method=method, agents=3)
    config = LabConfig(run, PartitionOptions(alpha=0.3), settings=truth.SETTINGS.get(method, ()))
    setup = prepare(config)
    talks = [setup.recipe.talks(Turn(setup.contract, setup.hyper, n)) for n in range(1, 6)]
    assert any(talks)
    assert method not in truth.SETTINGS or not all(talks)  # both kinds of round are tried
