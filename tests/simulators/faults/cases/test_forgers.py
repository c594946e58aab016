"""Who has the broker and no key changes nothing, on no device, and each of his words is a line."""

import pytest

from simulators.faults.cases import forgers
from tests.simulators.faults.playing import chosen, play


@pytest.mark.parametrize(
    ("case", "broker", "seed"), chosen(forgers.CASES, {"intruder, forged words": (0,)})
)
def test_every_promise_is_kept(case, broker, seed, tmp_path):
    assert play(case, broker, seed, tmp_path)


def test_every_case_is_marked():
    assert all(case.adversary for case in forgers.CASES)
