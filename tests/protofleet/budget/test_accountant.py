import math

import numpy as np
import pytest
from scipy.stats import norm

from protofleet.budget.accountant import Accountant, budget_of, epsilon_of, rho_of
from protofleet.contract import Budget
from protofleet.errors import UsageError


def delta_by_hand(epsilon, rho):
    """Canonne, Kamath and Steinke 2020, proposition 7, on a fine grid of α."""
    alpha = 1 + np.exp(np.linspace(-8, 8, 20_000))
    exponent = (alpha - 1) * (alpha * rho - epsilon) + alpha * np.log1p(-1 / alpha)
    return float(np.exp((exponent - np.log(alpha - 1)).min()))


@pytest.mark.parametrize("rho", [0.01, 0.224, 1.23])
@pytest.mark.parametrize("delta", [1e-6, 1e-5, 1e-2])
def test_epsilon_is_that_of_the_closed_form(rho, delta):
    assert delta_by_hand(epsilon_of(rho, delta), rho) == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 8.0])
def test_it_is_never_less_than_one_gaussian_needs(epsilon):
    """Balle and Wang 2018: exactly what a Gaussian of this ρ tells, which zCDP bounds."""
    rho, delta = rho_of(epsilon, 1e-5), 1e-5
    ratio = math.sqrt(2 * rho)  # Δ/σ
    true = norm.cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * norm.cdf(
        -ratio / 2 - epsilon / ratio
    )
    assert true <= delta
    assert epsilon_of(rho, delta) == pytest.approx(epsilon, rel=1e-6)
    assert epsilon_of(rho, delta) <= epsilon


def test_what_is_spent_adds_up_to_the_budget_and_no_further():
    account = Accountant(budget_of(3.0, 1e-5, 1.0, 3), (0.1, 0.6, 0.3))
    spent = [account.spent(times) for times in range(4)]
    assert spent[0] == 0
    assert spent == sorted(spent)
    assert 2.99999 < spent[3] <= 3.0
    # ρ adds up, ε does not: two publications cost less than both would alone.
    assert account.rho_at(1) + account.rho_at(2) == pytest.approx(0.7 * account.rho)
    assert spent[2] == pytest.approx(epsilon_of(0.7 * account.rho, 1e-5))
    assert spent[2] < spent[1] + epsilon_of(account.rho_at(2), 1e-5)
    with pytest.raises(UsageError, match="4 publications where 3 are paid for"):
        account.spent(4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "shares"),
    [(0, 1e-5, (1.0,)), (3, 0, (1.0,)), (3, 1, (1.0,)), (3, 1e-5, ()), (3, 1e-5, (0.9, 0.2))],
)
def test_a_budget_that_is_none_is_refused(epsilon, delta, shares):
    with pytest.raises(UsageError, match="publications is none"):
        Accountant(Budget(epsilon, delta, 1.0, 1.0, 1), shares)
    if shares == (1.0,):
        with pytest.raises(UsageError, match="publications is none"):
            budget_of(epsilon, delta, 1.0, 1)
