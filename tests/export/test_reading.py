"""How a device classifies, as data: the method's first way unless another is named."""

import numpy as np
import pytest

from edge_agent.inference.bundle import Reading
from export.reading import chosen
from protofleet.errors import UsageError
from protofleet.recipe import ByHead, LikeliestMixture, NearestPrototype
from protofleet.values.prototypes import Head, Mixtures, Prototypes

POINTS = Prototypes([0, 1], np.eye(2))
ROWS = Head([0, 1], np.eye(2), np.zeros(2))
GAUSSIANS = Mixtures([0, 1], np.ones(2), np.eye(2), np.ones((2, 2)), [1, 1])


@pytest.mark.parametrize(
    ("scorer", "reading", "points"),
    [
        (NearestPrototype(POINTS), Reading("prototypes"), POINTS),
        (
            NearestPrototype(POINTS, "cosine", "projection", True),
            Reading("prototypes", "cosine", of_unit=True, through="projection"),
            POINTS,
        ),
        (LikeliestMixture(GAUSSIANS), Reading("mixtures"), GAUSSIANS),
        (ByHead(rows=ROWS), Reading("head"), ROWS),
        (ByHead(of_unit=True), Reading("head", of_unit=True), None),  # its rows are in the network
    ],
)
def test_every_way_of_classifying_says_what_the_graph_does(scorer, reading, points):
    assert chosen({"one": scorer}, None) == (reading, points)


def test_the_first_is_the_methods_own_and_a_name_chooses_another():
    scorers = {"prototype": NearestPrototype(POINTS), "head": ByHead()}
    assert chosen(scorers, None)[0].by == "prototypes"
    assert chosen(scorers, "head")[0].by == "head"
    with pytest.raises(UsageError, match="does not classify by 'x'; it does by prototype, head"):
        chosen(scorers, "x")
