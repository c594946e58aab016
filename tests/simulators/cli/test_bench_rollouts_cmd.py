"""What `protofleet bench rollouts` prints of a rollout, and when it ends with 1."""

from dataclasses import replace

from simulators.cli.bench_rollouts_cmd import row
from simulators.rollouts.staged import StagedOutcome

BAD = StagedOutcome("worse", "back", "1 of 3 failed", 1, 3, 0, 40, 12.0, 5, 0.97, 0.86)


def test_a_line_says_who_ran_it_and_why_not():
    line = row(BAD)
    assert "first group 3, ran it 1 of 40, left on it 0, 5 deaths, 12 s" in line
    assert line.endswith("97.0 % → 86.0 %  1 of 3 failed")


def test_as_it_should_be():
    assert BAD.as_it_should
    assert not replace(BAD, left_on=1).as_it_should
    assert not replace(BAD, touched=4).as_it_should
    assert not replace(BAD, words="").as_it_should
    good = replace(BAD, variant="good", phase="done", left_on=40, words="")
    assert good.as_it_should
    assert not replace(good, left_on=39).as_it_should
