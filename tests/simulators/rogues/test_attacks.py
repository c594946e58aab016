"""What a rogue says is let in, however tight the limits are, and is not what it learnt."""

import numpy as np
import pytest

from coordinator.config import UploadLimits
from coordinator.uploads import measured
from coordinator.uploads.validation import Expected, content
from protofleet import registry
from protofleet.statistics.contribution import Grid, contribution, fold, from_parts, parts_of
from protofleet.values.prototypes import Mixtures, Prototypes, Tensors
from simulators.rogues.attacks import ATTACKS, COVARIANCE, MISJUDGED, RogueView
from tests.coordinator.made import CONTRACT

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(2, 4)).astype(np.float32)
POINTS = Prototypes(np.array([0, 2]), ROWS, np.array([5, 9]))
FLEETS = Prototypes(np.arange(3), Grid().onto(2 * RNG.normal(size=(3, 4))), [7, 8, 9])
MIXTURE = Mixtures(np.array([0, 1]), np.ones(2), ROWS, np.full((2, 4), 0.5), np.array([5, 9]))
X = RNG.normal(size=(30, 4))
UPLOADS = {
    "fedproto": {"prototypes": POINTS},
    "gfpl": {"mixtures": MIXTURE},
    "fedavg": {"weights": Tensors({"w": ROWS}), "data": Tensors({"samples": np.array(14)})},
    "fleet": dict(parts_of(contribution(X, np.arange(30) % 3, Grid()))),
}


def forged(method, attack, limits):
    view = RogueView(limits, {"prototypes": FLEETS}, np.random.default_rng(0))
    return ATTACKS[attack](UPLOADS[method], view)


@pytest.mark.parametrize("method", UPLOADS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_let_in_whatever_the_limits_and_is_not_the_truth(method, attack):
    own = UPLOADS[method]
    recipe = registry.load(method)
    fleets = measured.figures({**own, "prototypes": FLEETS})
    for limits in (UploadLimits(), measured.limits({"a": fleets}, margin=5.0)):
        parts = forged(method, attack, limits)
        want = Expected("orchard", "r1", recipe, CONTRACT, limits)
        assert content(want, parts, talks=True) is None
        spreads = method in ("gfpl", "fleet")
        says_nothing = {COVARIANCE: not spreads, MISJUDGED: True}
        assert (parts == own) == says_nothing.get(attack, False)
    if method == "fleet":
        assert fold(from_parts(parts), Grid())  # within a contribution's own bounds, and its grid


def test_a_rogue_speaks_of_every_class_and_as_loudly_as_it_may():
    limits = UploadLimits(norm=40, count=70, samples=150)
    parts = forged("fedproto", "counts", limits)["prototypes"]
    assert parts.classes.tolist() == [0, 1, 2]
    assert parts.counts.tolist() == [50, 50, 50]
    longest = np.linalg.norm(forged("fedproto", "norm", limits)["prototypes"].vectors, axis=1)
    assert 20 < longest.max() <= 40
