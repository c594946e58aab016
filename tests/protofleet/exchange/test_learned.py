"""Equal sums and counts make equal states, and nothing makes none."""

import numpy as np
import pytest

from protofleet.errors import FusionError
from protofleet.exchange import learned
from protofleet.exchange.state import GlobalState
from protofleet.statistics import counts
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.held_out import Samples
from protofleet.values.prototypes import Prototypes
from protofleet.values.sums import from_tensors, merge_all
from tests.protofleet.statistics.test_contribution import samples

DEVICES = [samples(seed) for seed in (1, 2, 3)]
FOLDED = [fold(contribution(*one, Grid()), Grid()) for one in DEVICES]


def test_of_the_same_sums_in_any_order_it_is_the_same_state():
    one, of_one = learned.state(merge_all(FOLDED))
    other, _ = learned.state(merge_all(reversed(FOLDED)))
    assert one.sha256 == other.sha256
    again, _ = learned.state(from_tensors(one.server[learned.TOTAL]))
    assert again.sha256 == one.sha256
    assert learned.calibration(one.shared) == of_one.calibration


def test_counts_change_it_and_it_says_how_sure_it_is():
    total = merge_all(FOLDED)
    before, _ = learned.state(total)
    sent = contribution(*DEVICES[0], Grid())
    own = counts.count(learned.moments(before.shared), Samples.of(*DEVICES[0], sent))
    after, known = learned.state(total, own)
    assert after.sha256 != before.sha256
    assert learned.calibration(after.shared) == known.calibration
    assert known.calibration.samples == 40


def test_of_nothing_there_is_nothing():
    assert learned.state({}) == (GlobalState(), None)
    assert learned.calibration({}) is None


@pytest.mark.parametrize("scale", [0.02, 1.0, 20.0])
def test_half_precision_keeps_a_scatter_of_any_size(scale):
    x, y = samples(5, n=300, scale=scale)
    shared = learned.state(fold(contribution(x, y, Grid()), Grid()))[0].shared
    off = x - np.stack([x[y == c].mean(0) for c in range(3)])[y]
    exact = off.T @ off / len(x)
    assert learned.moments(shared).within == pytest.approx(exact, abs=1e-2 * exact.max())


def test_parts_of_another_shape_are_refused():
    good = learned.state(FOLDED[0])[0].shared
    with pytest.raises(FusionError, match="are due"):
        learned.moments({})
    means, narrow = good[learned.MEANS], Prototypes([0], np.ones((1, 3)), [4])
    uncounted = Prototypes(means.classes, means.vectors)
    with pytest.raises(FusionError, match="each with its samples"):
        learned.moments({**good, learned.MEANS: uncounted})
    with pytest.raises(FusionError, match="upper triangle"):
        learned.moments({**good, learned.MEANS: narrow})
