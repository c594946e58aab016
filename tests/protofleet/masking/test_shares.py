import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.errors import FusionError
from protofleet.masking.shares import PRIME, joined, split


def test_the_published_example():
    # Shamir's secret sharing, Wikipedia: secret 1234, f = 1234 + 166 x + 94 x² modulo 1613.
    published = {1: 1494, 2: 329, 3: 965, 4: 176, 5: 1188, 6: 775}
    draws = iter([166, 94])
    shares = split(1234, 3, range(1, 7), lambda n: next(draws).to_bytes(n, "little"), prime=1613)
    assert shares == published
    for some in itertools.combinations(published.items(), 3):
        assert joined(dict(some), 3, prime=1613) == 1234


@given(st.integers(0, 2**256 - 1), st.integers(1, 9), st.randoms(use_true_random=False))
def test_any_threshold_of_the_shares_gives_the_secret_back(secret, threshold, dice):
    shares = split(secret, threshold, range(1, 10), dice.randbytes)
    some = dict(dice.sample(sorted(shares.items()), dice.randint(threshold, 9)))
    assert joined(some, threshold) == secret


def test_fewer_fit_every_secret():
    """Any other secret explains the same two shares of three: they say nothing."""
    shares = split(5, 3, range(1, 6), random.Random(1).randbytes)
    two = {1: shares[1], 2: shares[2]}
    with pytest.raises(FusionError, match="2 shares where 3 are due"):
        joined(two, 3)
    for other in (0, 5, PRIME - 1):  # the third share that makes it so exists
        through = {0: other, **two}
        third = 0
        for a, term in through.items():
            for b in set(through) - {a}:
                term *= (3 - b) * pow(a - b, -1, PRIME)  # noqa: PLW2901
            third = (third + term) % PRIME
        assert joined({**two, 3: third}, 3) == other


def test_a_wrong_share_beside_enough_right_ones_is_noticed():
    shares = split(5, 2, range(1, 5), random.Random(1).randbytes)
    with pytest.raises(FusionError, match="contradict"):
        joined({**shares, 4: shares[4] + 1}, 2)


@pytest.mark.parametrize(
    ("secret", "threshold", "points"),
    [(PRIME, 2, [1, 2]), (1, 3, [1, 2]), (1, 0, [1]), (1, 2, [0, 1]), (1, 2, [1, 1])],
)
def test_what_cannot_be_shared_is_refused(secret, threshold, points):
    with pytest.raises(FusionError):
        split(secret, threshold, points, random.Random(1).randbytes)
