"""A new class's row beside a fleet's head is the row that the fleet would have made."""

from dataclasses import replace

import numpy as np
import pytest

from protofleet.errors import FusionError
from protofleet.exchange import learned
from protofleet.statistics import addition
from protofleet.statistics.closed_form import head, moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.reliability import Calibration
from tests.protofleet.statistics.test_contribution import samples

GRID = Grid()


def fleet():
    x, y = samples(3, n=400, dim=12, classes=5)
    return moments(fold(contribution(x, y, GRID, 12), GRID))


def five(dim=12):
    rng = np.random.default_rng(8)
    return contribution(rng.normal(size=(5, dim)) - 3, np.zeros(5), GRID)


def made(of, shrinkage, distance):
    """A head, and what is said of how it was made."""
    sure = Calibration(1.0, shrinkage=shrinkage, distance=distance)
    return head(of, shrinkage, distance), sure


def test_the_row_is_the_fleets_own_and_the_others_stay():
    of, own = fleet(), five()
    rows, sure = made(of, 0.1, 9.0)
    # as the total comes over the wire: S in half precision
    arrived = learned.moments(learned.parts(of))
    more = addition.with_class(rows, sure, arrived, own, 77)
    assert more.classes.tolist() == [*rows.classes.tolist(), 77]
    assert np.array_equal(more.weight[:-1], rows.weight)
    assert np.array_equal(more.bias[:-1], rows.bias)
    # d of the theory, by hand: what the row answers for is where the photos lie
    mean, centre = own.means.vectors[0].astype(float), of.centre
    inverse = np.linalg.inv(of.shrunk(0.1))
    off = of.means - centre
    apart = np.einsum("kd,de,ke->k", off, inverse, off) - 9 / of.counts
    between = float(np.mean(apart))
    g = between / (between + 9.0 / 5)
    a = g * (mean - centre)
    for point in (mean, centre, of.means[0]):
        due = a @ inverse @ (point - centre) - 0.5 * a @ inverse @ a
        due += 0.5 * (g**2 * 9.0 / 5 + (1 - g) ** 2 * between)
        assert more.weight[-1] @ point + more.bias[-1] == pytest.approx(due, rel=0.02, abs=0.02)
    assert (mean @ more.weight.T + more.bias).argmax() == 5


def test_what_does_not_belong_together_is_refused():
    of = fleet()
    rows, sure = made(of, 0.1, 9.0)
    for wrong in (
        (rows, sure, of, five(), int(rows.classes[0])),
        (rows, sure, moments_of_other(), five(), 9),
        (rows, sure, of, five(7), 9),
        (rows, Calibration(1.0), of, five(), 9),
    ):
        with pytest.raises(FusionError):
            addition.with_class(*wrong)


def moments_of_other():
    x, y = samples(3, n=60, dim=7)
    return moments(fold(contribution(x, y, GRID, 7), GRID))


@pytest.mark.parametrize(("least", "distance"), [(-1.0, 9.0), (1.0, 1e308)])
def test_a_total_that_no_samples_have_is_refused(least, distance):
    """It comes over the channel: one whose scatter has no inverse, one without a finite row."""
    of, within = fleet(), np.eye(12)
    within[0, 0], within[1, 1] = least, 2 - least  # ρ = 1 adds the mean variance, which is 1
    rows, sure = made(fleet(), 1.0, 9.0)
    wrong = replace(of, within=within), five(), 9
    with np.errstate(all="ignore"), pytest.raises(FusionError, match="whose scatter is one of"):
        addition.with_class(rows, replace(sure, distance=distance), *wrong)
