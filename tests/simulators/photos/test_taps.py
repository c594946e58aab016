"""What is asked for first makes a fleet know more with fewer taps than chance does."""

import pytest

from simulators.photos.taps import CHOICES, VISIT, TapsOptions, bench_taps, tapped
from tests.simulators.photos.made_up import photographs


@pytest.fixture(scope="module")
def many():
    return photographs(per_class=20, classes=8, domains=2, lens=0.2)


def test_every_choice_taps_as_often_as_it_may_and_learns(many):
    answer = bench_taps(many, TapsOptions(taps=40, seeds=2), lambda words: None)
    assert set(answer["choices"]) == set(CHOICES)
    for rows in answer["choices"].values():
        assert [row["taps"] for row in rows] == list(range(VISIT, 41, VISIT))
        assert rows[-1]["accuracy"] > rows[0]["accuracy"]
    last = {name: rows[-1] for name, rows in answer["choices"].items()}
    first = {name: rows[1] for name, rows in answer["choices"].items()}
    assert all(last[name]["labels"] == 40 for name in ("queue", "random", "doubt"))
    assert first["queue"]["classes"] >= first["random"]["classes"]


def test_a_device_says_nothing_of_a_class_with_too_few(many):
    alone = list(tapped(many, "queue", 0, TapsOptions(taps=10, minimum=5)))
    assert [point.accuracy for point in alone] == [0.0, 0.0]
