"""A budget at the coordinator: one noise a cut, whoever dies when; nothing is published that has
none.
"""

from dataclasses import replace

import numpy as np
import pytest

from coordinator.service import status
from coordinator.service.replay import replayed
from coordinator.uploads.fuse import fuse_total, noised
from protofleet import wire
from protofleet.budget.accountant import budget_of
from protofleet.budget.released import noise_steps
from protofleet.errors import UsageError
from protofleet.recipe import Turn
from protofleet.values.prototypes import Prototypes
from protofleet.values.sums import merge_all
from tests.coordinator.made import (
    AGENTS,
    CONTRACT,
    agreed,
    announced,
    as_sent,
    birth,
    core,
    joined,
    parsed,
    receipts,
    upload,
)

BUDGET = budget_of(900.0, 0.1, 4.0, 2)  # so much that three devices stand out of it
BOUNDED = replace(CONTRACT, budget=BUDGET)


def bounded(folder, **changes):
    return core(folder, contract=BOUNDED, rounds=2, **changes)


def short(agent, round):
    """An upload on the grid, and within the norm."""
    rows = np.round(as_sent(agent, round)["prototypes"].vectors * 64) / 64
    classes = as_sent(agent, round)["prototypes"].classes
    return {"prototypes": Prototypes(classes, rows.astype(np.float32), np.array([3, 4]))}


def said_by_all(made, round, base):
    uploads = [upload(a, round, base, short(a, round)) for a in AGENTS]
    return made.take(uploads, float(round))


def test_a_run_is_its_uploads_and_the_noise_of_its_journal(tmp_path):
    made = bounded(tmp_path)
    _, _, base = joined(made)
    for round in (1, 2):
        before = made.state
        _, phase, base = announced(said_by_all(made, round, base))
        recipe, turn = made.terms.expected.recipe, Turn(BOUNDED, made.terms.hyper, round)
        uploads = [made.aggregator.upload(made.journal.upload(round, a)) for a in AGENTS]
        plain = merge_all(recipe.fold(turn, one, 1) for one in uploads)
        noisy = noised(plain, made.journal.noise(round))
        assert made.state.sha256 == fuse_total(recipe, turn, noisy, before).sha256
        assert made.state.sha256 != fuse_total(recipe, turn, plain, before).sha256
    assert phase == "done"
    assert {one.verdict for one in replayed(agreed(made).journal)} == {"same"}


def test_the_accountants_epsilon_is_what_status_says_and_no_more_is_said_when_it_is_spent(tmp_path):
    made = bounded(tmp_path)
    account = made.terms.private.accountant
    _, _, base = joined(made)
    for round in (1, 2):
        told = status.budget(made)
        assert told["spent"] == account.spent(round - 1)
        assert told["publications_left"] == 3 - round
        _, phase, base = announced(said_by_all(made, round, base))
    told = status.budget(made)
    assert told["spent"] == account.spent(2) <= told["epsilon"] == 900.0
    assert (told["publications_left"], told["unit"], told["clip"]) == (0, "device", 4.0)
    assert (phase, made.run_state.phase) == ("done", "done")
    assert "the budget is spent" in made.log.stream.getvalue()
    # The state stays, whoever comes.
    state = made.state.sha256
    made.take([birth("d"), upload("d", 3, base, short("d", 3))], 9.0)
    assert (made.state.sha256, made.run_state.number) == (state, 2)


def test_a_coordinator_that_dies_after_its_cut_publishes_with_the_noise_that_was_drawn(tmp_path):
    made = bounded(tmp_path)
    _, _, base = joined(made)

    class Dies(Exception):
        pass

    def dies(number):
        raise Dies

    made._fuse = dies
    with pytest.raises(Dies):
        said_by_all(made, 1, base)
    drawn = noise_steps(made.journal.noise(1))
    made.journal.close()
    again = bounded(tmp_path)
    again.recover(9.0)
    kept = noise_steps(again.journal.noise(1))
    assert all(np.array_equal(kept[name], steps) for name, steps in drawn.arrays.items())
    assert again.base_round == 1
    assert again.publications == 1
    assert {one.verdict for one in replayed(agreed(again).journal)} == {"same"}


def test_a_commit_that_fails_leaves_no_noise_and_spends_nothing(tmp_path, monkeypatch):
    made = bounded(tmp_path)
    _, _, base = joined(made)

    def full(round, noise):
        raise OSError("no room")

    monkeypatch.setattr(made.journal, "add_noise", full)
    with pytest.raises(OSError, match="no room"):
        said_by_all(made, 1, base)
    assert (made.journal.noise(1), made.journal.cut(1)) == (None, None)


def test_a_cut_whose_noise_is_gone_is_not_published(tmp_path):
    made = bounded(tmp_path)
    _, _, base = joined(made)
    made.journal.noise = lambda round: None
    before = made.state.sha256
    said_by_all(made, 1, base)
    assert made.state.sha256 == before
    assert "nothing is published without it" in made.journal.cut(1).failed


def test_what_is_not_shortened_as_agreed_is_refused(tmp_path):
    made = bounded(tmp_path)
    _, _, base = joined(made)
    long = {"prototypes": Prototypes([0], [[5.0, 0, 0, 0]], [3])}
    off = {"prototypes": Prototypes([0], [[2.0**-20, 0, 0, 0]], [3])}
    said = made.take([upload("a", 1, base, long), upload("b", 1, base, off)], 1.0)
    assert receipts(said) == [("a", "refused", "budget"), ("b", "refused", "bad-fusion")]


def test_nothing_but_uploads_is_taken_of_samples(tmp_path):
    made = bounded(tmp_path, enrol="off")
    joined(made)
    envelope = {"fleet": "orchard", "agent": "a", "round": 1}
    report = wire.encode(
        wire.Envelope("report", **envelope),
        {"accuracy": {"head": 0.5}, "drift": {"lineage": "x"}, "notice": "12 samples"},
    )
    place = made.topics.parse(made.topics.report("a"))
    made.take([(place, report)], 1.0)
    assert (made.accuracy(), made.keeper.drifts.all) == ({}, [])
    offered = wire.encode(wire.Envelope("enrol", **envelope, method="contribute"), {})
    said = made.take([(made.topics.parse(made.topics.upload("a", 0)), offered)], 2.0)
    assert receipts(said) == [("a", "refused", "budget")]
    with pytest.raises(UsageError, match="keeps the extractor"):
        made.classes("freeze", {"file": "x.pfb"}, 3.0)


def test_what_is_retained_has_no_count_of_anything(tmp_path):
    made = bounded(tmp_path)
    _, _, base = joined(made)
    said_by_all(made, 1, base)
    kinds = {parsed(p.topic).kind for p in made.greetings()}
    assert kinds == {"coordinator_state", "shared_state", "round", "proto"}
    assert status.status(made, made.messages, 1.0, 1.0, True, {})["ledger"] is None
