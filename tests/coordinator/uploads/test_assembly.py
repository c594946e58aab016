"""A masked round from who is ready to the state, without a network (`tests.grouping`): whoever is
lost, and whoever dies in between.
"""

import itertools

import numpy as np
import pytest

from coordinator.service.replay import replayed
from coordinator.uploads.fuse import fuse_total
from protofleet import wire
from protofleet.budget.accountant import budget_of
from protofleet.budget.clipping import POINT
from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.group import Readiness
from protofleet.masking.letters import encode_letter
from protofleet.values.prototypes import Prototypes
from protofleet.values.sums import merge_all
from tests.coordinator import made
from tests.grouping import AGENTS, STEPS, MaskedFleet


@pytest.fixture
def fleet(tmp_path):
    fleets = []

    def begin(**how):
        fleets.append(MaskedFleet(tmp_path / str(len(fleets)), **how))
        return fleets[-1]

    yield begin
    for one in fleets:
        one.close()


@pytest.mark.parametrize("method", ["fedproto", "protonorm"])
@pytest.mark.parametrize("dropouts", [0, 1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_the_state_is_that_of_a_plain_round_of_the_survivors(fleet, step, dropouts, method):
    lost = AGENTS[1 : 1 + dropouts] if step != "ready" else ()
    trial = fleet(dropouts=2, lost=dict.fromkeys(lost, step), method=method)
    # Who is lost after its masked sum arrived is in the total.
    gone = () if step == "reveal" else lost
    survivors = [name for name in AGENTS if name not in gone]
    assert trial.run() == trial.plain(survivors)
    statuses = {name: status for name, status in trial.final.items() if name not in lost}
    assert set(statuses.values()) <= {"accepted"}
    assert all(len(sums) == 1 for sums in trial.masked().values())


def test_losses_at_two_steps_and_a_device_that_never_was_ready(fleet):
    trial = fleet(dropouts=1, lost={"b": "ready", "c": "keys"})
    assert trial.run() == trial.plain(["a", "d", "e", "f"])
    (agreement,) = {word.session: word for word in trial.agreements}.values()
    assert agreement.devices == ("a", "c", "d", "e", "f")


@pytest.mark.parametrize("crash", range(6))
@pytest.mark.parametrize("lost", [{}, {"b": "masks"}])
def test_everybody_dies_between_two_messages_and_nothing_changes(fleet, crash, lost):
    trial = fleet(dropouts=2, lost=lost, crash=crash)
    assert trial.run() == trial.plain([name for name in AGENTS if name not in lost])
    # One session, and of each device one masked sum: no mask was used for two numbers.
    assert len({word.session for word in trial.agreements}) == 1
    assert all(len(sums) == 1 for sums in trial.masked().values())


@pytest.mark.parametrize("step", ["keys", "shares", "masks", "reveal"])
def test_one_too_many_and_the_round_is_closed_without_a_total(fleet, step):
    trial = fleet(dropouts=2, lost=dict.fromkeys(("a", "b", "c"), step))
    before = trial.core.journal.state(0)[1].sha256
    assert trial.run() == before
    cut = trial.core.journal.cut(1)
    assert "of 6 devices" in cut.failed
    assert "4 are due" in cut.failed
    assert not cut.counted
    words = trial.core.log.stream.getvalue()
    assert words.count("cannot be fused") == 1
    assert set(trial.final.values()) <= {"late", "noted"}


def test_too_few_that_are_ready_are_no_group(fleet):
    trial = fleet(dropouts=2, lost={"b": "ready"})
    trial.core.rules = trial.core.rules.__class__(
        **{**vars(trial.core.rules), "least": 1}
    )  # as if a round could close with as few
    before = trial.core.journal.state(0)[1].sha256
    assert trial.run() == before
    assert "5 devices for a masked sum, 6 are due" in trial.core.journal.cut(1).failed


def test_the_journal_replays_and_holds_no_upload(fleet, tmp_path):
    trial = fleet(dropouts=1, lost={"e": "masks"})
    trial.run()
    made.agreed(trial.core)
    assert [state.verdict for state in replayed(trial.core.journal)] == ["same", "same"]
    trial.close()
    written = b"".join(
        path.read_bytes() for path in (trial.folder / "journal").rglob("*") if path.is_file()
    )
    for name in AGENTS:
        body = wire.encode_parts(made.parts_of(name, 1), "half", {})
        vectors = made.parts_of(name, 1)["prototypes"].vectors
        assert body not in written
        assert not any(row.astype("<f2").tobytes() in written for row in vectors)
        assert not any(row.astype("<f4").tobytes() in written for row in vectors)


def test_compacted_minutes_are_said_to_be(fleet):
    trial = fleet()
    trial.run()
    made.agreed(trial.core)
    with trial.core.journal.commit():
        trial.core.journal._db.execute("DELETE FROM logged")
    assert [state.verdict for state in replayed(trial.core.journal)] == ["same", "compacted"]


def test_a_plain_upload_is_refused(fleet):
    trial = fleet()
    _, _, base = trial.join()
    said = trial.core.take([made.upload("a", 1, base)], 1.0)
    assert made.receipts(said) == [("a", "refused", "masked")]
    assert not trial.core.intake.fresh


def test_letters_that_are_nobodys_or_of_no_group(fleet):
    trial = fleet()
    _, _, base = trial.join()
    head = {"run": "r1", "epoch": 1, "agent": "a", "round": 1, "method": "fedproto", "base": base}
    envelope = wire.Envelope("letter", "orchard", **head)
    place = made.TOPICS.parse(made.TOPICS.upload("a", 1))
    as_another = wire.enclose(envelope, encode_letter(Readiness("b", {})))
    assert made.receipts(trial.core.take([(place, as_another)], 1.0)) == [
        ("a", "refused", "wrong-agent")
    ]
    trial.run()
    # A letter of a round that is over gets the round's own answer.
    kinds = {kind: sent for name, kind, sent in trial.letters if name == "a"}
    for kind, sent in itertools.islice(kinds.items(), 5):
        said = trial.core.take([(place, sent)], 2.0)
        assert made.receipts(said) == [("a", "duplicate", "")], kind
    word = wire.enclose(envelope, encode_letter(trial.agreements[0]))
    assert made.receipts(trial.core.take([(place, word)], 2.0)) == [("a", "refused", "not-now")]


BUDGET = budget_of(900.0, 0.1, 4.0, 1)  # so much that six devices stand out of it


def short(agent, round):
    """An upload on the grid, and within the norm."""
    part = made.parts_of(agent, round)["prototypes"]
    rows = np.round(part.vectors * 64) / 64
    return {"prototypes": Prototypes(part.classes, rows.astype(np.float32), part.counts)}


@pytest.mark.parametrize("lost", [{}, {"b": "masks", "c": "keys"}])
def test_under_a_budget_each_device_adds_its_part_of_the_noise(fleet, lost):
    trial, scales = fleet(dropouts=2, lost=lost, budget=BUDGET, parts_of=short), set()

    def a_step_each(scale, count):
        scales.add(scale)
        return np.ones(count, np.int64)

    for device in trial.devices.values():
        device.masker.sampler = a_step_each
    state, private = trial.run(), trial.core.terms.private
    # As many steps in every number as devices are in the total, and nothing of the coordinator's.
    survivors = [name for name in AGENTS if name not in lost]
    recipe, turn = trial.core.terms.expected.recipe, trial.turn
    uploads = [Upload(name, 1, "", short(name, 1)) for name in survivors]
    ones = [private.noise(turn, GlobalState(), a_step_each) for _ in survivors]
    total = merge_all([*(recipe.fold(turn, one, 1) for one in uploads), *ones])
    assert state == fuse_total(recipe, turn, total, GlobalState()).sha256
    assert trial.core.journal.noise(1) is None
    assert len(trial.core.state.shared["prototypes"].classes) > 0
    # Enough for the fewest who may be left: a quarter of the variance where two of six may be lost.
    values, counts = private.stage(turn, GlobalState()).scales("prototypes")
    few = len(AGENTS) - len([at for at in lost.values() if at == "ready"]) - 2
    assert {values * 2**POINT / few**0.5, counts * 2**POINT / few**0.5} <= scales
    assert {one.verdict for one in replayed(made.agreed(trial.core).journal)} == {"same"}


@pytest.mark.parametrize("crash", range(6))
def test_under_a_budget_nobody_who_dies_tells_two_sums(fleet, crash):
    trial = fleet(dropouts=1, crash=crash, budget=BUDGET, parts_of=short)
    noisy = trial.run()
    assert noisy != trial.plain(AGENTS)
    assert all(len(sums) == 1 for sums in trial.masked().values())
    assert trial.core.publications == 1
