"""Of two extractors the one that is better beyond chance, and a sentence that says why."""

import pytest

from protofleet.statistics.adoption import Standard, Verdict
from protofleet.statistics.held_out import STEP
from tests.protofleet.statistics.test_counts import COUNTS


def standard(samples, right, loss):
    return Standard(samples, right, round(loss * samples / STEP))


def test_a_standard_is_what_the_counts_choose():
    whole = COUNTS[0].plus(COUNTS[1]).plus(COUNTS[2])
    have, sure = Standard.of(whole), whole.at(whole.choice)
    assert (have.samples, have.right) == (90, int(sure.right.sum()))
    assert have.loss == pytest.approx(whole.losses.min() * STEP / 90, abs=1e-3)
    assert Standard.of(None) == Standard()


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            (1000, 600, 1.2),
            (1000, 640, 1.1),
            "adopted: of 1,000 samples held out, 60.0 % right, log-loss 1.200 before, "
            "64.0 % right, log-loss 1.100 now",
        ),
        (
            (1000, 600, 1.2),
            (1000, 610, 1.1),  # by chance
            "refused: of 1,000 samples held out, 60.0 % right, log-loss 1.200 before, "
            "61.0 % right, log-loss 1.100 with it; more than 2.2 points and a lower loss are due",
        ),
        (
            (1000, 600, 1.2),
            (1000, 640, 1.3),  # more often right, and far too sure of it where it is not
            "refused: of 1,000 samples held out, 60.0 % right, log-loss 1.200 before, "
            "64.0 % right, log-loss 1.300 with it; more than 2.2 points and a lower loss are due",
        ),
        ((0, 0, 0), (9, 9, 0.1), "refused: no device could hold samples out of both extractors"),
    ],
)
def test_better_is_right_more_often_and_surer_of_it(before, after, sentence):
    verdict = Verdict(standard(*before), standard(*after))
    assert verdict.sentence == sentence
    assert verdict.is_better == sentence.startswith("adopted")
