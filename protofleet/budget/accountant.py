"""What a run may tell of one sample or one device, and what of it is spent: ε at a δ, from ρ of
zero-concentrated differential privacy, which adds up over publications. Converted by OpenDP.
"""

# Theory of operation
#
# A publication whose sums change by at most Δ (in length) when one sample or device is taken out,
# with discrete Gaussian noise of σ in each number, is ρ-zCDP with ρ = Δ² / 2σ² (Canonne, Kamath and
# Steinke 2020, theorem 4). What different publications tell adds up in ρ, whatever came in between,
# and parts of one publication do, too. So ρ is what is counted, and ε only what people read:
#
#   δ(ε) = inf over α > 1 of exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α     (their proposition 7)
#
# which OpenDP inverts. A budget of ε is the largest ρ whose ε is not above it, in parts for as many
# publications as were announced. Nothing here depends on data, so what is left is known at any
# time: it is a number of publications.
#
# Who counts: each publication costs its part whether or not a device took part in it. A device that
# spoke once pays for all; that is more than it has to (its samples are in one), never less.

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from protofleet.contract import Budget
from protofleet.errors import UsageError
from protofleet.util.extras import check_installed

_STEPS = 40  # of bisection: to 2⁻⁴⁰ of ε


@dataclass(frozen=True)
class Accountant:
    """A budget for so many publications."""

    budget: Budget
    shares: tuple[float, ...]  # of ρ, one for each publication

    def __post_init__(self) -> None:
        budget = self.budget
        right = self.shares and min(self.shares) > 0 and sum(self.shares) < 1 + 1e-9
        if not is_one(budget.epsilon, budget.delta) or not right:
            raise _no_budget(budget.epsilon, budget.delta, self.publications)

    @property
    def publications(self) -> int:
        """How many are paid for."""
        return len(self.shares)

    @property
    def rho(self) -> float:
        """Of all publications together."""
        return self.budget.rho

    def rho_at(self, publication: int) -> float:
        """Of one publication, from 1 up."""
        return self.rho * self.shares[publication - 1]

    def spent(self, publications: int) -> float:
        """ε after so many; never above the budget, since there are no more than it is for."""
        if not 0 <= publications <= self.publications:
            raise UsageError(f"{publications} publications where {self.publications} are paid for")
        rho = self.rho * min(1.0, sum(self.shares[:publications]))
        return epsilon_of(rho, self.budget.delta) if publications else 0.0


def budget_of(epsilon: float, delta: float, norm: float, publications: int) -> Budget:
    """A budget with the ρ that it comes to."""
    if not is_one(epsilon, delta) or publications < 1:
        raise _no_budget(epsilon, delta, publications)
    return Budget(epsilon, delta, rho_of(epsilon, delta), norm, publications)


def is_one(epsilon: float, delta: float) -> bool:
    """Whether these two bound anything."""
    return 0 < epsilon < 1e3 and 0 < delta < 1


def _no_budget(epsilon: float, delta: float, publications: int) -> UsageError:
    words = f"a budget of ε {epsilon:g} at δ {delta:g} for {publications} publications is none"
    return UsageError(words)


@cache
def epsilon_of(rho: float, delta: float) -> float:
    """The ε at this δ of what is ρ-zCDP."""
    check_installed("opendp", "privacy", "budgets")
    import opendp.prelude as dp

    dp.enable_features("contrib")
    # OpenDP converts measurements: one scalar whose noise makes it exactly this ρ.
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    gaussian = dp.m.make_gaussian(*space, scale=float((2 * rho) ** -0.5))
    convert: Any = dp.c.make_zCDP_to_approxDP(gaussian)
    return float(convert.map(1.0).epsilon(delta))


@cache
def rho_of(epsilon: float, delta: float) -> float:
    """The largest ρ whose ε at this δ is not above it."""
    low, high = 0.0, epsilon  # ε is above ρ at any δ that is of use
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low
