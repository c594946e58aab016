"""The laboratory: the same command ends in the same state, whatever is evaluated or compiled."""

from dataclasses import replace

import pytest

from protofleet.contract import Numerics
from protofleet.errors import UsageError
from simulators.run.config import BudgetOptions, MaskOptions
from simulators.run.result import document
from simulators.run.rounds import LabOptions, run
from simulators.run.setup import prepare


def ended(config, **how):
    return run(prepare(config), LabOptions(**how), lambda row: None)


def test_evaluating_less_often_changes_nothing_but_the_rows(small_lab):
    assert ended(small_lab(eval_every=3)).state.sha256 == ended(small_lab()).state.sha256


def test_compiled_runs_are_repeatable_too(small_lab):
    config = small_lab(numerics=Numerics(compile=True), rounds=2)
    assert ended(config).state.sha256 == ended(config).state.sha256


def test_half_precision_and_int8_cost_bytes_and_little_else(small_lab):
    rows = {
        wire: ended(small_lab(wire=wire, rounds=4)).rows[-1] for wire in ("float32", "half", "int8")
    }
    assert rows["float32"].up_bytes > 1.6 * rows["half"].up_bytes > 2.2 * rows["int8"].up_bytes
    assert (
        max(
            abs(r.accuracy["prototype"] - rows["float32"].accuracy["prototype"])
            for r in rows.values()
        )
        < 0.05
    )


def under_budget(config, **masks):
    budget = BudgetOptions(epsilon=8.0, clip=14.0)
    return replace(config, budget=budget, masks=MaskOptions(**masks))


def test_the_ledger_of_a_budget_is_the_accountant_s_own_and_ends_it(small_lab):
    config = under_budget(small_lab("fleet", rounds=3, eval_every=3))
    outcome = ended(config)
    account = outcome.setup.private.accountant
    assert [row.epsilon for row in outcome.rows] == [account.spent(n) for n in (1, 2, 2)]
    assert document(outcome)["privacy"]["spent"] == account.spent(2) <= 8.0
    assert [row.up_bytes > 0 for row in outcome.rows] == [True, True, False]
    assert outcome.rows[-1].accuracy["prototype"] > 0.5


def test_under_masks_devices_add_the_noise_themselves(small_lab):
    outcome = ended(under_budget(small_lab("fleet", rounds=2), secure_sum=True, dropouts=1))
    assert outcome.rows[-1].epsilon == outcome.setup.private.accountant.spent(2)
    assert [len(row.lost) for row in outcome.rows] == [1, 1]
    assert outcome.rows[-1].accuracy["prototype"] > 0.4


@pytest.mark.parametrize("method", ["fedproto", "protonorm", "feddistill"])
def test_methods_that_train_spend_a_device_s_budget_round_by_round(small_lab, method):
    outcome = ended(under_budget(small_lab(method, rounds=2)))
    account = outcome.setup.private.accountant
    assert outcome.setup.private.unit == "device"
    assert [row.epsilon for row in outcome.rows] == [account.spent(1), account.spent(2)]
    assert outcome.state.sha256 != ended(small_lab(method, rounds=2)).state.sha256


def test_a_budget_that_cannot_be_had_is_one_line(small_lab):
    with pytest.raises(UsageError, match="publishes twice; --rounds 2"):
        prepare(under_budget(small_lab("fleet", rounds=1)))
    with pytest.raises(UsageError, match="fedavg sends more than means"):
        prepare(under_budget(small_lab("fedavg")))


def test_noise_of_the_system_is_never_the_same_twice(small_lab):
    config = under_budget(small_lab("fedproto", rounds=1))
    secret = replace(config, budget=replace(config.budget, epsilon=900.0, noise="system"))
    assert ended(secret).state.sha256 != ended(secret).state.sha256
    open_ = replace(config, budget=replace(config.budget, epsilon=900.0))
    assert ended(open_).state.sha256 == ended(open_).state.sha256
