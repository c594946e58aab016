"""The table of silence is made of its runs."""

from click.testing import CliRunner

from protofleet.errors import UsageError
from simulators.attacks.silence import SilentRun
from simulators.cli.bench_silence_cmd import silence, table


def test_a_task_that_there_is_not_is_refused_with_those_that_there_are():
    result = CliRunner().invoke(silence, ["--task", "chess"])
    assert isinstance(result.exception, UsageError)
    assert "dir-0.1" in str(result.exception)


def test_a_row_is_what_each_silence_takes_away_and_the_worst_of_it():
    runs = [
        SilentRun("mnist", seed, way, whole - loss, spoken)
        for seed, whole in enumerate((0.9, 0.8))
        for way, loss, spoken in [
            ("everything", 0.0, 1.0),
            ("minimum", 0.001 + 0.002 * seed, 0.99),
            ("one by one", 0.01, 0.9),
            ("off", 0.2, 0.99),
        ]
    ]
    head, _, row = table(runs)
    assert head.startswith("| task | everything | minimum | spoken of | one by one |")
    assert row == (
        "| mnist | 85.00 | -0.20 (-0.30 at worst) | 99.0 % | -1.00 (-1.00 at worst) | 90.0 % |"
        " -20.00 (-20.00 at worst) | 99.0 % | 2 |"
    )
