import json

import numpy as np
import pytest
from click.testing import CliRunner

from simulators.cli.bench_budget_cmd import budget
from tests.simulators.attacks.test_budgeted import crowd


@pytest.fixture
def file(tmp_path):
    features, labels = crowd(count=600, width=12)
    np.savez(tmp_path / "features.npz", f=features, y=labels)
    return ["--features", str(tmp_path / "features.npz"), "--clip", "40"]


def test_the_table_is_for_people_and_the_rows_for_programs(file):
    words = CliRunner().invoke(budget, [*file, "--epsilon", "0", "--epsilon", "5"]).output
    assert "480 samples, 1 seeds" in words
    assert "no noise" in words
    assert "ε = 5" in words
    rows = json.loads(CliRunner().invoke(budget, [*file, "--epsilon", "5", "--json"]).output)
    assert [row["epsilon"] for row in rows] == [5.0]
    assert 0 < rows[0]["spent"] <= 5


def test_a_negative_budget_is_one_line(file):
    outcome = CliRunner().invoke(budget, [*file, "--epsilon", "-1"])
    assert "numbers from 0 up are due" in str(outcome.exception)
