"""What is held back is not in what is seen."""

import numpy as np

from protofleet.statistics.contribution import scatter
from simulators.attacks.defences import HELD_BACK, OPEN, Defences, group_total, spoken


def some(people, *counts):
    rows = [people.private.of_class(c)[:n] for c, n in enumerate(counts)]
    return people.private.at(np.concatenate(rows))


def test_classes_of_too_few_samples_are_not_spoken_of(people):
    crowd = some(people, 4, 5)
    own = spoken(crowd.features, crowd.labels, people.grid, HELD_BACK)
    assert own.means.classes.tolist() == [1]
    few = crowd.at(crowd.of_class(0))
    assert spoken(few.features, few.labels, people.grid, HELD_BACK) is None
    assert spoken(few.features, few.labels, people.grid, OPEN).samples == 4


def test_a_covariance_that_is_not_open_is_not_in_it(people):
    crowd = some(people, 6)
    own = spoken(crowd.features, crowd.labels, people.grid, Defences(covariance="off"))
    assert not len(own.rows)
    assert not own.residual.any()


def test_a_group_is_the_sum_of_its_devices(people):
    owners = [some(people, 6), some(people, 0, 7)]
    several = [spoken(c.features, c.labels, people.grid, OPEN) for c in owners]
    total, samples = group_total(several, people.grid)
    assert samples == 13
    assert np.array_equal(total, sum(scatter(own) for own in several))
