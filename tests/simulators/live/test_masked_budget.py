"""The method `fleet` under masks and a budget: devices and a coordinator without a network, held to
the laboratory with the same draws.
"""

import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from coordinator.service.replay import replayed
from coordinator.uploads import assembly
from coordinator.uploads.fuse import fuse_total, start_state
from edge_agent.contributing.learner import FeatureLearner
from edge_agent.protocol import seat as seats
from edge_agent.protocol.events import RoundSpec
from edge_agent.protocol.seat import Vouching
from protofleet import registry, wire
from protofleet.budget.accountant import budget_of, epsilon_of
from protofleet.budget.clipping import POINT
from protofleet.budget.noise import seeded
from protofleet.budget.private import CENTRE, of_contract
from protofleet.budget.released import beyond
from protofleet.errors import FusionError, LinkError, UsageError
from protofleet.exchange import learned
from protofleet.exchange.published import About, Bank
from protofleet.exchange.state import Upload
from protofleet.masking.group import Agreement, Convener, Member
from protofleet.masking.letters import decode_letter
from protofleet.recipe import Turn
from protofleet.settings.fields import to_plain
from protofleet.values.prototypes import Prototypes
from protofleet.values.sums import merge_all
from simulators.run.config import LabConfig, MaskOptions, Run
from simulators.run.masked import masked_round
from tests.coordinator import made
from tests.grouping import AGENTS, MaskedFleet

BUDGET = budget_of(300.0, 1e-5, 8.0, 1)
TRUE = 4 * np.eye(3, 4)  # where the classes lie


def learner(name, count=40):
    """A device's samples."""
    rng = np.random.default_rng([*name.encode()])
    labels = rng.integers(0, 3, count)
    return FeatureLearner(name, (TRUE[labels] + rng.normal(size=(count, 4))).astype("f4"), labels)


class BudgetedFleet(MaskedFleet):
    """Six devices that answer two rounds by what they see."""

    def __init__(self, folder, **how):
        bank = Bank(About("extractor:e", ()), Prototypes([], np.zeros((0, 4))))
        how = {"method": "fleet", "rounds": 2, "budget": BUDGET, "bank": bank} | how
        super().__init__(folder, **how)
        self.learners = {name: learner(name) for name in AGENTS}
        self.parts_of = lambda name, number: self.answer(name, number, self.core.state)

    @property
    def recipe(self):
        """The method under its budget."""
        return self.core.terms.expected.recipe

    def at(self, number, name=""):
        """A turn of the run."""
        return Turn(self.core.terms.expected.contract, self.core.terms.hyper, number, name)

    def answer(self, name, number, state):
        """What a device's training process makes."""
        return self.recipe.summarise(self.at(number, name), self.learners[name], state.shared)

    def uploads(self, number, state, names=AGENTS):
        """The same as it is read again."""
        contract, exceptions = self.at(number).contract, self.recipe.precision
        sent = {name: self.answer(name, number, state) for name in names}
        came = {n: wire.as_received(parts, contract.wire, exceptions) for n, parts in sent.items()}
        return [Upload(name, number, state.base, parts) for name, parts in came.items()]

    def plain(self, number, state, names):
        """The sums of these devices, without noise."""
        uploads = self.uploads(number, state, names)
        return merge_all(self.recipe.fold(self.at(number), upload, 1) for upload in uploads)


@pytest.fixture
def fleet(tmp_path):
    fleets = []

    def begin(**how):
        fleets.append(BudgetedFleet(tmp_path / str(len(fleets)), **how))
        return fleets[-1]

    yield begin
    for one in fleets:
        one.close()


def laboratory(trial, dropouts):
    """The laboratory's masked run of the same devices: the state after each round, and who was
    lost at which step.
    """
    config = LabConfig(Run(method="fleet"), masks=MaskOptions(True, dropouts))
    contract, hyper = trial.at(1).contract, trial.at(1).hyper
    private = of_contract(registry.load("fleet"), contract, hyper)
    run = SimpleNamespace(config=config, recipe=private.recipe, private=private)
    before, outcomes = start_state(run.recipe, trial.at(0)), []
    for number in (1, 2):
        masked = masked_round(run, trial.at(number), before, trial.uploads(number, before))
        before = fuse_total(run.recipe, trial.at(number), masked.total, before)
        outcomes.append((before, masked.lost))
    return outcomes


@pytest.mark.parametrize("dropouts", [0, 1, 2])
def test_live_and_laboratory_end_in_one_hash_with_the_same_draws(fleet, dropouts):
    trial = fleet(dropouts=dropouts)
    for number, (state, lost) in enumerate(laboratory(trial, dropouts), 1):
        trial.lost = lost
        for name, device in trial.devices.items():
            device.masker.sampler = seeded(trial.at(number, name).rng("noise"))
        trial.run_round(number)
        assert trial.core.state.sha256 == state.sha256
    # And it is of use: all three classes stand out of the noise, about where they are.
    assert learned.moments(trial.core.state.shared).means == pytest.approx(TRUE, abs=1.0)


LOSSES = [
    *((2, lost, step) for lost in range(3) for step in ("keys", "shares", "masks", "reveal")),
    *((1, lost, "ready") for lost in range(3)),  # who is never ready is not of the group
]


@pytest.mark.parametrize(("dropouts", "lost", "step"), LOSSES)
def test_a_total_has_the_noise_that_the_accountant_counts_whoever_is_lost(
    fleet, dropouts, lost, step
):
    """Each number's variance by the draws themselves, with none to t devices lost at a step; and
    OpenDP's ε for that is within the budget, and at t just the budget.
    """
    trial = fleet(dropouts=dropouts, lost=dict.fromkeys(AGENTS[1 : 1 + lost], step))
    drawn = {}

    def noting(name):
        def sample(scale, count):
            if count:
                drawn.setdefault(name, []).append(scale)
            return np.full(count, 1 << AGENTS.index(name))

        return sample

    spent = 0.0
    for number in (1, 2):
        for name, device in trial.devices.items():
            device.masker.sampler = noting(name)
        before = trial.core.state
        drawn.clear()
        trial.run_round(number)
        late = step == "reveal"  # who is lost then is in the total
        there = [name for name in AGENTS if late or name not in AGENTS[1 : 1 + lost]]
        assert sorted(name for _, name, _ in trial.core.journal.cut(number).counted) == there
        # In every number of the total the noise of these devices, once each, and of nobody else.
        found = assembly.total(trial.core.journal, trial.recipe, trial.at(number))
        rest = beyond(found, trial.plain(number, before, there))
        mechanism = trial.core.terms.private.stage(trial.at(number), before)
        whose = sum(1 << AGENTS.index(name) for name in there)
        assert set(rest.arrays) == set(mechanism.sums)
        assert all(set(steps.ravel()) == {whose} for steps in rest.arrays.values())
        # So its variance is the sum of theirs.
        invited = len(AGENTS) - (lost if step == "ready" else 0)
        changes = [(one.change, one.counted) for one in mechanism.sums.values()]
        scales = [mechanism.scales(name) for name in mechanism.sums]
        pairs = zip(sum(changes, ()), sum(scales, ()), strict=True)
        pairs = [(change, scale) for change, scale in pairs if change]
        for at, (change, scale) in enumerate(pairs):
            variance = sum(drawn[device][at] ** 2 for device in there) * 4.0**-POINT
            assert variance == pytest.approx(scale**2 * len(there) / (invited - dropouts))
            spent += change**2 / (2 * variance)
        assert {len(found) for found in drawn.values()} == {len(pairs)}
    assert epsilon_of(spent, BUDGET.delta) <= BUDGET.epsilon * (1 + 1e-9)
    if len(there) == invited - dropouts:
        assert epsilon_of(spent, BUDGET.delta) == pytest.approx(BUDGET.epsilon, rel=1e-6)


def test_the_journal_holds_neither_upload_nor_noise_and_replays(fleet):
    trial = fleet(dropouts=1, lost={"e": "masks"})
    sent = {}
    trial.parts_of = lambda name, number: sent.setdefault(
        (name, number), trial.answer(name, number, trial.core.state)
    )
    trial.run()
    journal = trial.core.journal
    assert [journal.noise(number) for number in (1, 2)] == [None, None]
    assert {one.verdict for one in replayed(made.agreed(trial.core).journal)} == {"same"}
    assert len({word.session for word in trial.agreements}) == 2
    assert all(len(sums) == 2 for name, sums in trial.masked().items() if name != "e")
    trial.close()
    written = b"".join(
        path.read_bytes() for path in (trial.folder / "journal").rglob("*") if path.is_file()
    )
    for parts in sent.values():
        body = wire.encode_parts(parts, "half", trial.recipe.precision)
        assert body not in written
        assert not any(
            len(array.tobytes()) > 8 and array.tobytes() in written
            for name, array in parts["sums"].arrays.items()
            if name.endswith(".octets")
        )


@pytest.mark.parametrize("crash", range(6))
def test_nobody_who_dies_tells_two_sums_of_a_round(fleet, crash):
    trial = fleet(dropouts=1, crash=crash)
    trial.run()
    assert len({word.session for word in trial.agreements}) == 2
    assert all(len(sums) == 2 for sums in trial.masked().values())
    assert {one.verdict for one in replayed(made.agreed(trial.core).journal)} == {"same"}


def test_when_it_is_spent_no_round_opens_and_it_is_said_once(fleet):
    trial = fleet(dropouts=1)
    trial.run()
    core, log = trial.core, trial.core.log.stream
    assert (core.run_state.phase, core.publications) == ("done", 2)
    assert core.terms.private.accountant.spent(2) == pytest.approx(BUDGET.epsilon)
    made.joined(core, AGENTS, 1e6)
    assert core.run_state.number == 2
    assert log.getvalue().count("the budget is spent: the state stays") == 1
    # Nor does a device have anything to say in a round that somebody opens all the same.
    assert trial.answer("a", 3, core.state) != {}
    trial.devices["a"].trains(core, 3, core.state.base, {})
    device = trial.devices["a"]
    assert device.masker.letter(device.store.upload("r1", 3)) is None
    trial.devices["a"].trains(core, 4, core.state.base, trial.answer("a", 2, core.state))
    with pytest.raises(FusionError, match="nothing is added up has an upload"):
        device.masker.letter(device.store.upload("r1", 4))


def test_a_first_publication_without_a_total_is_paid_for_and_the_second_is_of_means(fleet):
    trial = fleet(dropouts=1, lost={"b": "masks", "c": "masks"})
    for device in trial.devices.values():
        device.masker.sampler = lambda scale, count: np.zeros(count, np.int64)
    trial.run_round(1)
    assert "4 of 6 devices sent masked sums" in trial.core.journal.cut(1).failed
    assert (trial.core.publications, CENTRE in trial.core.state.shared) == (1, False)
    trial.lost = {}
    trial.run_round(2)
    x, y = (
        np.concatenate([getattr(one, of) for one in trial.learners.values()])
        for of in ("rows", "labels")
    )
    means = learned.moments(trial.core.state.shared).means
    assert means == pytest.approx(np.stack([x[y == c].mean(0) for c in range(3)]), abs=0.01)
    assert {one.verdict for one in replayed(made.agreed(trial.core).journal)} == {"same"}


def waiting(trial, name="a"):
    """A device whose answer to the first round waits."""
    trial.join()
    device = trial.devices[name]
    device.trains(trial.core, 1, trial.core.state.base, trial.answer(name, 1, trial.core.state))
    return device, device.store.upload("r1", 1)


def test_a_coordinator_that_lets_more_be_lost_than_agreed_gets_more_noise(fleet):
    """The group's own terms decide: as few as this device lets a total be of."""
    trial, scales = fleet(dropouts=0), []
    device, upload = waiting(trial)
    own = device.masker._sums(device.masker._of("r1"), upload)

    def sample(scale, count):
        scales.append(scale)
        return np.zeros(count, np.int64)

    device.masker.sampler = sample
    own.said(6)
    kept, scales[:] = list(scales), []
    own.said(4)
    assert scales == pytest.approx([scale * (6 / 4) ** 0.5 for scale in kept])
    # And 4 is what it goes by when a coordinator calls six of whom two may be lost.
    asked = []
    wanted = replace(own, noise=lambda fewest: asked.append(fewest) or {})
    said = masked_by_hand(
        wanted, Agreement(b"s" * 16, AGENTS, 2, wanted.layout(6).digest(), "round 1")
    )
    assert asked == [4]
    assert said.member.step == "masked"


def masked_by_hand(own, agreement):
    """The first device's seat after the words of a group of equals."""
    others = {
        name: Member.joining(name, agreement, agreement.layout, os.urandom)
        for name in agreement.devices[1:]
    }
    seat = seats.answered(None, agreement, own, Vouching(), os.urandom)
    convener = Convener(agreement).take(decode_letter(seat.letter))
    for member in others.values():
        convener = convener.take(member.keys())
    convener, roster = convener.call()
    seat = seats.answered(seat, roster, own, Vouching(), os.urandom)
    convener = convener.take(decode_letter(seat.letter))
    for member in others.values():
        convener = convener.take(member.share(roster, os.urandom)[1])
    convener, parcels = convener.deliver()
    return seats.answered(seat, parcels[own.agent], own, Vouching(), os.urandom)


def test_a_device_that_cannot_draw_noise_is_not_counted_on(fleet):
    device, upload = waiting(fleet())

    def missing(scale, count):
        raise UsageError("budgets need opendp", "pip install 'protofleet[privacy]'")

    device.masker.sampler = missing
    with pytest.raises(UsageError, match="opendp"):
        device.masker.letter(upload)


def test_noise_is_for_the_state_that_was_answered_and_for_no_other(fleet):
    trial = fleet()
    trial.run_round(1)
    device, state = trial.devices["a"], trial.core.state
    device.trains(trial.core, 2, state.base, trial.answer("a", 2, state))
    upload = device.store.upload("r1", 2)
    assert decode_letter(device.masker.letter(upload)).device == "a"
    with device.store.transaction() as db:
        db.execute("DELETE FROM states")
    device.start()
    with pytest.raises(FusionError, match="the state that round 2 was answered on is not here"):
        device.masker.letter(upload)


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": to_plain(replace(BUDGET, norm=1e6))},
        {"budget": to_plain(replace(BUDGET, publications=100))},
        {"budget": to_plain(budget_of(900.0, 1e-5, 8.0, 1))},
        {"budget": None},
        {"masks": None},
    ],
)
def test_another_budget_than_the_run_began_with_is_not_heard(fleet, changes):
    trial = fleet()
    device, _ = waiting(trial)
    contract = trial.core.terms.expected.contract.announced()
    hyper = to_plain(trial.core.terms.hyper)
    device.masker.announced(RoundSpec("r1", "fleet", contract, hyper))
    with pytest.raises(LinkError, match="the run's budget is another than it began with"):
        device.masker.announced(RoundSpec("r1", "fleet", {**contract, **changes}, hyper))
    with pytest.raises(LinkError, match="another"):
        device.masker.announced(RoundSpec("r1", "fedproto", contract, hyper))
