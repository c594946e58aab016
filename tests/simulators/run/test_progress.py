"""Progress is a bar for whoever watches and a few lines for whoever reads a log."""

import pytest

from simulators.run.progress import size, watched, words
from simulators.run.result import Row


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_900, "999.9 kB"),
        (2_500_000, "2.5 MB"),
        (7.2e9, "7.2 GB"),
        (5e13, "50000.0 GB"),
    ],
)
def test_bytes_have_the_unit_that_a_person_takes(count, text):
    assert size(count) == text


def test_a_round_is_known_by_its_prototypes_and_by_nothing_where_it_was_not_evaluated():
    row = Row(3, {"head": 0.5, "prototype": 0.25}, up_bytes=2000)
    assert words(row) == "prototype 25.0 %  up 2.0 kB  down 0 B"
    assert words(Row(3)) == "not evaluated  up 0 B  down 0 B"


@pytest.mark.parametrize(("rounds", "told"), [(3, [1, 2, 3]), (25, [*range(2, 25, 2), 25])])
def test_a_log_gets_about_ten_lines_a_run_and_always_the_last(rounds, told, capsys):
    with watched("a run", rounds) as watch:
        for number in range(1, rounds + 1):
            watch(Row(number))
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(f"/{rounds}")[0] for line in lines] == [
        f"a run  round {number}" for number in told
    ]
