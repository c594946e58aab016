"""Two halves of a set under one extractor."""

import numpy as np
import pytest

from protofleet.errors import DataError
from simulators.attacks.population import population
from simulators.run.config import LabConfig, Run


def test_nobody_is_in_both_halves_and_all_are_seen_alike(people):
    public, private = people.public, people.private
    assert len(public.labels) + len(private.labels) == 1797
    assert people.width == 504
    same = (public.images[:, None] == private.images[None, :50]).all((2, 3, 4))
    assert same.sum() < 3  # digits has a few doubles of its own
    one = private.of_class(3)
    assert set(private.labels[one].tolist()) == {3}
    assert people.enough_for(20)
    assert not people.enough_for(100)


def test_an_extractor_that_learns_is_refused():
    with pytest.raises(DataError, match="frozen"):
        population(LabConfig(Run(method="fedproto", dataset="digits")), 100)


def test_it_is_drawn_by_its_seed(people):
    again = population(LabConfig(Run(method="fleet", dataset="digits", seed=1)), 1797)
    assert not np.array_equal(again.private.labels, people.private.labels)
