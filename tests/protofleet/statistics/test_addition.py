"""A new class's row beside a fleet's head is the row that the fleet would have made."""

import numpy as np
import pytest

from protofleet.errors import FusionError
from protofleet.exchange import learned
from protofleet.statistics import addition
from protofleet.statistics.closed_form import PRIOR, SHRINKAGE, head, moments
from protofleet.statistics.contribution import Grid, contribution, fold
from tests.protofleet.statistics.test_contribution import samples

GRID = Grid()


def fleet():
    x, y = samples(3, n=400, dim=12, classes=5)
    return moments(fold(contribution(x, y, GRID, 12), GRID))


def five(dim=12):
    rng = np.random.default_rng(8)
    return contribution(rng.normal(size=(5, dim)) - 3, np.zeros(5), GRID)


@pytest.mark.parametrize("shrinkage", [SHRINKAGE[0], SHRINKAGE[3], SHRINKAGE[-1]])
def test_what_a_head_was_made_with_is_read_off_its_rows(shrinkage):
    of = fleet()
    rows = head(of, shrinkage, 7.5)
    # as it comes over the wire: S in half precision
    arrived = learned.moments(learned.parts(of))
    choice = addition.chosen(rows, arrived)
    assert choice.shrinkage == shrinkage
    assert choice.distance == pytest.approx(7.5, rel=0.05)


def test_the_row_is_the_fleets_own_and_the_others_stay():
    of, own = fleet(), five()
    rows = head(of, 0.1, 9.0)
    more = addition.with_class(rows, of, own, 3 if 3 not in rows.classes else 77)
    assert more.classes.tolist() == [*rows.classes.tolist(), 77]
    assert np.array_equal(more.weight[:-1], rows.weight)
    assert np.array_equal(more.bias[:-1], rows.bias)
    # d of the theory, by hand: what the row answers for is where the photos lie
    mean, centre = own.means.vectors[0].astype(float), of.centre
    g = 5 / (5 + PRIOR)
    inverse = np.linalg.inv(of.shrunk(0.1))
    a = g * (mean - centre)
    for point in (mean, centre, of.means[0]):
        due = a @ inverse @ (point - centre) - 0.5 * a @ inverse @ a + 0.5 * 2 * 9.0 * g**2 / 5
        assert more.weight[-1] @ point + more.bias[-1] == pytest.approx(due, rel=0.02, abs=0.02)
    assert (mean @ more.weight.T + more.bias).argmax() == 5


def test_what_does_not_belong_together_is_refused():
    of, rows = fleet(), head(fleet(), 0.1, 9.0)
    with pytest.raises(FusionError):
        addition.with_class(rows, of, five(), int(rows.classes[0]))
    with pytest.raises(FusionError):
        addition.with_class(head(fleet(), 0.1, 1.0), moments_of_other(), five(), 9)


def moments_of_other():
    x, y = samples(3, n=60, dim=7)
    return moments(fold(contribution(x, y, GRID, 7), GRID))
