"""Which budgets are none, and how far rounds go under one."""

from dataclasses import replace

import pytest

from coordinator.config import FleetConfig
from coordinator.rounds.machine import RoundRules
from coordinator.service import spending
from protofleet import registry
from protofleet.budget.private import of_contract
from protofleet.contract import Contract, Input
from protofleet.errors import SettingError, UsageError

CLASSES = ("a", "b")


class Unwritten:
    """A journal with nothing, or an agreement, in it."""

    def __init__(self, text=None):
        self._text = text

    def meta(self, key):
        return self._text if key == "agreement" else None


def plan(method="fedproto", *, trust=(), **serve):
    base = FleetConfig()
    contract = replace(base.contract, classes=CLASSES, input=Input("vector", (3,)))
    return replace(
        base,
        contract=contract,
        serve=replace(base.serve, **{"method": method, "min_agents": 3, "rounds": 4} | serve),
        trust=replace(base.trust, **{"epsilon": 3.0, **dict(trust)}),
    )


NEW = Unwritten()


def budget(of, journal=NEW):
    return spending.of_plan(of, registry.load(of.serve.method), journal)


def test_a_fleet_without_epsilon_has_none():
    assert budget(plan(trust={"epsilon": 0.0})) is None


def test_rounds_are_publications_where_nobody_says():
    assert budget(plan()).publications == 4
    assert budget(plan(trust={"publications": 3}, rounds=0)).publications == 3
    assert budget(plan("fleet", rounds=0)).publications == 1  # it has two of its own


@pytest.mark.parametrize("method", ["fleet", "fedproto", "protonorm", "feddistill"])
def test_it_is_the_same_under_masks(method):
    assert budget(plan(method, trust={"secure_sum": True})) == budget(plan(method))


def test_a_run_goes_on_with_the_digits_that_it_announced():
    first = budget(plan())
    as_written = (
        '{"contract": {"budget": {"epsilon": 3.0, "delta": 1e-05, "rho": 0.25, "norm": 16.0,'
        ' "publications": 4}}}'
    )
    assert budget(plan(), Unwritten(as_written)).rho == 0.25
    changed = budget(plan(trust={"epsilon": 2.0}), Unwritten(as_written))
    assert (changed.epsilon, changed.rho < first.rho) == (2.0, True)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (plan(max_staleness=1), "max_staleness: under a budget an upload counts once"),
        (plan(mode="async"), "under a budget an upload counts once"),
        (plan(enrol="auto"), "serve.enrol: auto"),
        (
            replace(plan(), rollout=replace(FleetConfig().rollout, versions=0.1)),
            r"rollout.versions: under a budget no device says",
        ),
        (plan(min_agents=1), r"serve.min_agents: .* one device would open them"),
        (plan(rounds=0), "trust.publications: a budget has to be spent in a number of rounds"),
        (replace(plan(), contract=FleetConfig().contract), r"contract.classes: .* beforehand"),
    ],
)
def test_what_cannot_be_promised_is_refused_in_one_line(of, words):
    with pytest.raises(SettingError, match=words):
        budget(of)


def test_a_budget_that_is_none_is_refused():
    with pytest.raises(UsageError, match=r"ε 1000 .* is none"):
        budget(plan(trust={"epsilon": 1000.0}))


@pytest.mark.parametrize(
    ("method", "rounds", "last"),
    [("fleet", None, 2), ("fleet", 1, 1), ("protonorm", None, 4), ("protonorm", 9, 4)],
)
def test_no_round_opens_after_the_last_publication(method, rounds, last):
    recipe = registry.load(method)
    contract = Contract("f", "r", 0, CLASSES, Input("vector", (3,)), 3, budget=budget(plan(method)))
    under = of_contract(recipe, contract, recipe.hyper())
    rules = RoundRules(lambda number, agents: agents, rounds)
    assert spending.until_spent(rules, under, contract, recipe.hyper()).rounds == last
    assert spending.until_spent(rules, None, contract, recipe.hyper()) is rules
