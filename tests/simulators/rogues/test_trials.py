"""What one rogue of five does, with and without a defence, on the digits."""

import pytest

from protofleet.contract import Training
from simulators.rogues.trials import HONEST, RoguePlan, run
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions


@pytest.fixture(scope="module")
def trials():
    config = LabConfig(
        Run(method="fedproto", rounds=6, common_start="yes"),
        PartitionOptions(alpha=5.0, limit=800),
        Training(lr=0.05),
    )
    plan = RoguePlan(config, ("buckets=256",), (5,), (0,), ("norm", "covariance"))
    watched = []
    trials = run(plan, watched.append)
    assert watched == trials
    return {(trial.attack, trial.defended): trial for trial in trials}


def test_a_defence_costs_nothing_where_all_are_honest_and_saves_the_others_where_one_is_not(trials):
    assert sorted(trials) == [(HONEST, False), (HONEST, True), ("norm", False), ("norm", True)]
    honest, guarded = trials[HONEST, False], trials[HONEST, True]
    assert guarded.accuracy >= honest.accuracy - 0.03
    plain, defended = trials["norm", False], trials["norm", True]
    assert plain.accuracy < 0.6 * plain.honest
    assert defended.accuracy > 0.9 * defended.honest


def test_an_attack_is_one_only_if_it_was_let_in(trials):
    for defended in (False, True):
        trial = trials["norm", defended]
        assert (trial.tried, trial.admitted) == (6, 6)
        assert trial.in_any_order
