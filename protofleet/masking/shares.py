"""Shamir's shares (1979): of n shares any `threshold` give the secret back, and fewer give nothing.

By hand because no kept library does it over a prime field: a polynomial, and its value at zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from protofleet.errors import FusionError

# The smallest prime above 2²⁵⁶: every secret of 32 bytes is a number below it.
PRIME = 2**256 + 297
SECRET, SHARE = 32, 33  # bytes
Draw = Callable[[int], bytes]  # so many bytes that nobody can guess


def split(
    secret: int, threshold: int, points: Sequence[int], draw: Draw, prime: int = PRIME
) -> dict[int, int]:
    """A share for every point; points are from 1 up, since at 0 lies the secret."""
    if not 1 <= threshold <= len(points) or len(set(points)) < len(points):
        raise FusionError(f"no {threshold} of {len(points)} shares give a secret back")
    if not 0 <= secret < prime or not all(0 < point < prime for point in points):
        raise FusionError("a secret or a point of a share is not of the field")
    # Sixteen bytes more than the field has: what is left of the remainder's bias is below 2⁻¹²⁸.
    octets = (prime.bit_length() + 7) // 8 + 16
    rest = [int.from_bytes(draw(octets), "little") % prime for _ in range(threshold - 1)]
    shares = {}
    for point in points:
        value = 0
        for coefficient in reversed(rest):
            value = (value + coefficient) * point % prime
        shares[point] = (value + secret) % prime
    return shares


def joined(shares: Mapping[int, int], threshold: int, prime: int = PRIME) -> int:
    """The secret: Lagrange's polynomial at zero. More shares than needed must agree with it."""
    points = sorted(shares)
    if len(points) < threshold:
        raise FusionError(f"{len(points)} shares where {threshold} are due")
    some = points[:threshold]
    for further in points[threshold:]:
        if _at(further, some, shares, prime) != shares[further]:
            raise FusionError("shares of one secret contradict each other")
    return _at(0, some, shares, prime)


def _at(x: int, points: Sequence[int], shares: Mapping[int, int], prime: int) -> int:
    total = 0
    for one in points:
        above = below = 1
        for other in points:
            if other != one:
                above = above * (x - other) % prime
                below = below * (one - other) % prime
        total += shares[one] * above * pow(below, -1, prime)
    return total % prime
