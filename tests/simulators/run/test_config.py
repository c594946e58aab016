"""What a run depends on is in its configuration, and every number there knows its bounds."""

from dataclasses import fields

import pytest

from protofleet import registry
from protofleet.contract import Numerics, Training
from protofleet.errors import SettingError
from protofleet.settings.fields import from_plain, to_plain
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions


def test_a_configuration_reads_back_from_plain_values():
    run = Run(method="gfpl", agents=3, partition_seed=7, wire="int8", participation=0.5)
    assert from_plain(Run, to_plain(run)) == run


@pytest.mark.parametrize(
    "values",
    [{"agents": 0}, {"rounds": 0}, {"participation": 1.5}, {"seed": -1}, {"wire": "bytes"}],
)
def test_what_no_run_can_be_is_refused(values):
    with pytest.raises(SettingError):
        from_plain(Run, values)


def test_no_option_stands_in_two_sections_but_the_run_s_own_kind_of_partition():
    names = [f.name for part in (Run, PartitionOptions, Training, Numerics) for f in fields(part)]
    assert len(set(names)) == len(names)  # a flag of the command line belongs to one of them


def test_by_default_a_known_method_runs():
    assert LabConfig().run.method in registry.names()
