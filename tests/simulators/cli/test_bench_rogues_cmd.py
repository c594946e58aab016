"""The table of rogues is made of its trials."""

from click.testing import CliRunner

from protofleet.errors import UsageError
from simulators.cli.bench_rogues_cmd import rogues, table
from simulators.rogues.trials import RogueTrial


def test_an_attack_that_there_is_not_is_refused_with_those_that_there_are():
    result = CliRunner().invoke(rogues, ["--attack", "bribery"])
    assert isinstance(result.exception, UsageError)
    assert "negated" in str(result.exception)


def test_a_row_is_the_mean_over_seeds_and_the_worst_of_them():
    trials = [
        RogueTrial(5, 0, "norm", False, 0.2, 0.9, True, 4, 4),
        RogueTrial(5, 0, "norm", True, 0.9, 0.9, True, 4, 4),
        RogueTrial(5, 1, "norm", True, 0.4, 0.8, False, 4, 3),
    ]
    _, row = table(trials)
    assert row.split() == [
        *("5", "norm", "86.7", "20.0", "65.0"),
        *("75.0", "%", "50.0", "%", "11/12", "MORE", "HASHES"),
    ]
