"""The device's rules, as a table of what it is told and what it does; and what holds in any order
of messages.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.protocol.actions import (
    Birth,
    Evaluate,
    OpenRun,
    Report,
    Requeue,
    Send,
    SendChunks,
    Settle,
    Train,
)
from edge_agent.protocol.events import (
    Announced,
    BundleReady,
    Coordinator,
    Evaluated,
    Failed,
    LinkDown,
    LinkUp,
    NewSamples,
    Opened,
    Own,
    OwnerLimits,
    Receipt,
    Requeued,
    RoundSpec,
    Shared,
    TimePassed,
    Trained,
)
from edge_agent.protocol.machine import DeviceState, step
from edge_agent.protocol.retry import RetryRules
from protofleet.wire import epochs


@dataclass
class Driven:
    """A device with a store that keeps what it is told, and a clock that is set."""

    me: DeviceState = field(default_factory=lambda: DeviceState(RetryRules("a")))
    now: float = 0.0
    trained: dict[str, list[int]] = field(default_factory=dict)
    waiting: dict[str, list[int]] = field(default_factory=dict)
    did: list = field(default_factory=list)

    def __call__(self, *events):
        new = self._told(events)
        self.did += new
        return new

    def _told(self, events):
        new = []
        for event in events:
            self.me, actions = step(self.me, event, self.now)
            for action in actions:
                new.append(action)
                if isinstance(action, OpenRun):
                    done = self.trained.get(action.run, [])
                    waits = tuple(self.waiting.get(action.run, []))
                    last = done[-1] if done else 0
                    new += self._told([Opened(action.run, last, last - 1, waits)])
                if isinstance(action, Requeue) and action.round in self.trained[action.run]:
                    self.waiting[action.run].append(action.round)
                    new += self._told([Requeued(action.run, action.round)])
                if isinstance(action, Settle):
                    self.waiting[action.run].remove(action.round)
        return new

    def finish(self):
        task = self.me.busy
        if isinstance(task, Evaluate):
            return self(Evaluated())
        self.trained.setdefault(task.run, []).append(task.round)
        self.waiting.setdefault(task.run, []).append(task.round)
        return self(Trained(task.run, task.round, task.base_round))


SPEC = RoundSpec("r", "fedproto", {}, {})


def announced(round, *, asked=None, run="r", epoch=1, base=None, phase="open", own=False):
    base = round - 1 if base is None else base
    return Announced(run, epoch, round, phase, asked, base, f"s{base}", own, SPEC)


def state(round, run="r", epoch=1):
    return Shared(run, epoch, round, f"s{round}")


def kinds(actions):
    return [type(action) for action in actions]


@pytest.fixture
def device():
    made = Driven()
    made(LinkUp(), Coordinator("r", 1, True))
    return made


def test_a_birth_goes_out_on_every_connection_and_for_every_run():
    made = Driven()
    assert made(LinkUp()) == [Birth("", -1)]
    assert Birth("r", 1) in made(Coordinator("r", 1, True))
    made(LinkDown())
    assert made(LinkUp()) == [Birth("r", 1)]
    assert made(Coordinator("r", 2, True)) == [Birth("r", 2)]


def test_training_waits_for_the_announcement_and_for_the_very_state_it_names(device):
    assert device(announced(3)) == []
    assert device(state(1)) == []
    assert device(state(2)) == [Train("r", 3, 2, "s2", False, True, SPEC)]


def test_training_waits_for_the_devices_own_part_where_there_is_one(device):
    device(announced(3, own=True), state(2))
    assert device.me.busy is None
    assert device(Own("r", 1, 1, "s1")) == []
    assert kinds(device(Own("r", 1, 2, "s2"))) == [Train]


@pytest.mark.parametrize("phase", ["closed", "paused", "done"])
def test_only_an_open_round_is_trained(device, phase):
    assert device(state(0), announced(1, phase=phase)) == []


def test_only_those_who_are_asked_train_and_the_others_measure(device):
    assert kinds(device(state(1), announced(2, asked=("b",)))) == [Evaluate]
    device.finish()
    assert kinds(device(state(2), announced(3, asked=("a", "b")))) == [Train]


def test_a_round_is_trained_once_however_often_it_is_announced(device):
    device(state(0), announced(1))
    device.finish()
    assert kinds(device(announced(1), announced(1), state(0))) == []


def test_a_round_superseded_before_its_training_began_is_skipped(device):
    device(announced(1), announced(2), state(1))
    assert device.me.busy.round == 2


def test_echoes_of_older_rounds_and_states_change_nothing(device):
    assert device(announced(3), announced(2), state(1)) == []
    assert [task.round for task in device(state(2)) if isinstance(task, Train)] == [3]
    device.finish()
    device(state(3), state(1))
    assert [task.round for task in device(announced(4)) if isinstance(task, Train)] == [4]
    device.finish()
    device(Own("r", 1, 4, "s4"), Own("r", 1, 2, "s2"), state(4))
    assert kinds(device(announced(5, own=True))) == [Train]


def test_training_that_runs_is_finished_and_delivered_though_its_round_is_over(device):
    device(state(0), announced(1), state(1), announced(2))
    assert kinds(device.finish()) == [Send, Train]
    assert device.me.busy.round == 2


def test_an_upload_goes_out_again_after_a_back_off_and_after_a_new_connection(device):
    device(state(0), announced(1))
    assert device.finish() == [Send("r", 1, 1)]
    assert device(TimePassed()) == []
    device.now = 6.0
    assert device(TimePassed()) == [Send("r", 1, 1)]
    device.now = 12.0
    assert device(TimePassed()) == []  # twice as long now
    device(LinkDown())
    assert device(TimePassed()) == []
    assert device(LinkUp()) == [Birth("r", 1), Send("r", 1, 1)]


def test_uploads_wait_for_each_other_the_oldest_first(device):
    device(LinkDown(), state(0), announced(1))
    device.finish()
    device(state(1), announced(2))
    device.finish()
    assert device(LinkUp())[-1] == Send("r", 1, 1)
    assert device(Receipt("r", 1, 1, "late")) == [
        Settle("r", 1, "late", "", "", 1),
        Send("r", 2, 1),
    ]
    assert device(Receipt("r", 1, 1, "late")) == []


def test_chunks_are_sent_when_they_are_missed(device):
    device(state(0), announced(1))
    device.finish()
    missing = Receipt("r", 1, 1, "missing", digest="d", missing=((0, 3),))
    assert device(missing) == [SendChunks("r", 1, "d", ((0, 3),))]
    assert device.me.waiting == (1,)


def test_a_new_run_begins_afresh_and_an_old_one_is_taken_up_where_it_was(device):
    device(state(0), announced(1))
    device.finish()
    assert OpenRun("other", 2) in device(Coordinator("other", 2, True))
    assert device(TimePassed()) == []  # what waits is of another run
    assert kinds(device(state(0, "other", 2), announced(1, run="other", epoch=2))) == [Train]
    device.finish()
    back = device(Coordinator("r", 3, True))
    assert Send("r", 1, 3) in back
    assert device(state(0, epoch=3), announced(1, epoch=3)) == []  # trained already


@pytest.mark.parametrize("run", ["r", "new"])
def test_an_epoch_that_nobody_can_have_is_not_followed(device, run):
    device(Coordinator("r", 5, True), state(0, epoch=5), announced(1, epoch=5))
    before = device.me
    for epoch in (2**63 - 1, 2**40, epochs.FIRST + 1):
        word = Coordinator(run, epoch, True), state(1, run, epoch), announced(2, run=run)
        assert device(*word[:2]) == []
    assert device.me == before
    assert kinds(device(Coordinator("r", 5 + epochs.JUMP, True))) == [Birth]


def test_what_was_noted_before_there_were_bounds_shuts_no_coordinator_out():
    device = Driven(DeviceState(RetryRules("a"), epochs={"r": 2**63 - 1}))
    device(LinkUp())
    assert kinds(device(Coordinator("r", 6, True))) == [OpenRun, Birth]
    assert device.me.epochs == {"r": 6}


def test_the_way_back_from_an_intruder_is_the_coordinators_next_life(device):
    """What a device can be made to believe is what a coordinator that hears of it goes above: it
    is started again, and where the intruder went as far as it could, once more.
    """
    device(Coordinator("r", 5, True))
    for jump in (1, epochs.JUMP - 1, epochs.JUMP):
        own = device.me.epoch
        device(Coordinator("r", own + jump, True), announced(9, epoch=own + jump))
        assert device(announced(1, epoch=own)) == []
        heard = [action.epoch for action in device.did if isinstance(action, Birth)][-1]
        lives = 2 if jump == epochs.JUMP else 1
        for _ in range(lives):
            own = epochs.following(own, heard)
            device(Coordinator("r", own, True, boot=f"life {own}"), announced(1, epoch=own))
        assert (device.me.epoch, device.me.announced.round) == (own, 1)


def test_a_run_that_nobody_heard_of_is_followed_whatever_was_believed_before(device):
    device(Coordinator("fresh", epochs.FIRST, True))
    device(Coordinator("another", 1, True))
    assert (device.me.run, device.me.epoch) == ("another", 1)


def test_a_coordinator_that_was_replaced_is_not_followed(device):
    device(Coordinator("r", 5, True), state(0, epoch=5), announced(1, epoch=5))
    device.finish()
    assert device(Coordinator("r", 4, True), announced(2, epoch=4), state(1, epoch=4)) == []
    device(Coordinator("new", 6, True))
    assert device(Coordinator("r", 5, True)) == []
    assert device.me.run == "new"


@pytest.mark.parametrize(
    "back", [Coordinator("r", 2, True), Coordinator("r", 1, True, boot="another life")]
)
def test_what_a_restarted_coordinator_asks_for_again_is_delivered_again(device, back):
    for round in (1, 2):
        device(state(round - 1), announced(round))
        device.finish()
        device(Receipt("r", 1, round, "accepted"))
    assert device(announced(2)) == []
    epoch = back.epoch
    device(Coordinator("r", 1, False), back)
    # It lost two rounds: they are opened again, and answered from the outbox, in turn.
    for round in (1, 2):
        assert device(announced(round, epoch=epoch)) == [
            Requeue("r", round),
            Send("r", round, epoch),
        ]
        device(Receipt("r", epoch, round, "accepted"))
        assert device(announced(round, epoch=epoch)) == []


def test_an_upload_for_a_round_the_coordinator_does_not_know_waits_until_it_is_asked_for(device):
    device(state(0), announced(1))
    device.finish()
    device(Coordinator("r", 2, True))
    for _ in range(3):
        assert device(Receipt("r", 2, 1, "refused", "unknown-round")) == []
        device.now += 40.0
        assert device(TimePassed()) == [Send("r", 1, 2)]
    assert device(announced(1, epoch=2)) == [Send("r", 1, 2)]
    assert device(Receipt("r", 2, 1, "accepted"))[0] == Settle("r", 1, "accepted", "", "", 2)


def test_a_receipt_of_another_run_changes_nothing(device):
    device(state(0), announced(1))
    device.finish()
    assert device(Receipt("other", 1, 1, "accepted")) == []
    assert device.me.waiting == (1,)


def test_a_refusal_to_train_is_reported_once_a_round_and_lifted(device):
    device(OwnerLimits("window: at night only"))
    assert device(state(0), announced(1)) == [Report("r", 1, "window: at night only")]
    assert device(TimePassed(), announced(1)) == []
    assert device(state(1), announced(2)) == [Report("r", 2, "window: at night only")]
    assert kinds(device(OwnerLimits())) == [Birth, Train]  # the coordinator may ask again


def test_nothing_is_sent_when_the_days_bytes_are_used_up(device):
    device(state(0), announced(1), OwnerLimits("bytes: used up", may_send=False))
    assert device.finish() == []
    assert device(OwnerLimits()) == [Birth("r", 1), Send("r", 1, 1)]


def test_training_that_fails_is_tried_again_and_given_up_after_three_times(device):
    device(state(0), announced(1))
    for attempt in range(3):
        device.now += 1000
        if attempt:
            assert kinds(device(TimePassed())) == [Train]
        given_up = [Report("r", 1, "killed"), Birth("r", 1)] if attempt == 2 else []
        assert device(Failed("r", 1, "killed", "again")) == given_up
    device.now += 1000
    assert device(TimePassed()) == []
    assert kinds(device(state(1), announced(2))) == [Train]


def test_a_failure_that_will_not_pass_gives_the_round_up_at_once(device):
    device(state(0), announced(1))
    assert device(Failed("r", 1, "diverged", "round")) == [
        Report("r", 1, "diverged"),
        Birth("r", 1),
    ]
    device.now += 1000
    assert device(TimePassed()) == []


def test_a_device_that_cannot_train_says_so_once_until_its_samples_change(device):
    device(state(0), announced(1))
    assert device(Failed("r", 1, "wrong shape", "device")) == [Report("r", 1, "wrong shape")]
    assert device(state(1), announced(2)) == []
    assert kinds(device(NewSamples())) == [Birth, Train]


def test_asynchronously_a_device_trains_once_a_state(device):
    device(Coordinator("r", 1, True, asynchronous=True), state(0), announced(1))
    device.finish()
    assert device(announced(2, base=0)) == []
    assert kinds(device(state(1), announced(2))) == [Train]


def test_a_round_without_exchange_keeps_its_base(device):
    device(state(0), announced(1))
    device.finish()
    assert kinds(device(announced(2, base=0))) == [Train]


def test_a_state_is_measured_once_and_the_last_one_too(device):
    device(state(0), announced(1))
    device.finish()
    assert device(state(1)) == []
    assert device(announced(1, phase="closed")) == [Evaluate("r", 1, 1, "s1", False, SPEC)]
    device.finish()
    assert device(announced(1, phase="done"), state(1)) == []


def test_a_state_is_not_measured_without_the_part_that_is_the_devices_own(device):
    device(state(0), announced(1))
    device.finish()
    assert device(state(1), announced(1, phase="done", own=True)) == []
    assert kinds(device(Own("r", 1, 1, "s1"))) == [Evaluate]


ROUNDS = 5


def messages():
    """What a coordinator says in five rounds, in its order."""
    said = [Coordinator("r", 1, True)]
    for round in range(1, ROUNDS + 1):
        said += [state(round - 1), announced(round)]
    return said


@given(st.data())
def test_in_any_order_with_losses_and_repetitions_rounds_rise_and_uploads_arrive_in_order(data):
    """Whatever the network does; at the end it works for a while, and then nothing may be left."""
    said = messages()
    noise = data.draw(
        st.lists(
            st.sampled_from([*said, LinkUp(), LinkDown(), TimePassed(), "finish", "receipt"]),
            max_size=60,
        )
    )
    device = Driven()
    arrived = []
    for event in noise:
        device.now += data.draw(st.sampled_from([0.0, 1.0, 10.0]))
        if event == "finish":
            if device.me.busy is not None:
                device.finish()
        elif event == "receipt":
            if device.me.delivery is not None and device.me.connected:
                device(Receipt("r", 1, device.me.delivery.round, "accepted"))
        else:
            if isinstance(event, Shared):
                arrived.append(event)
            device(event)
    device(LinkUp(), said[0], said[-2], said[-1])
    arrived.append(said[-2])
    for _ in range(3 * ROUNDS):
        device.now += 400
        device(TimePassed())
        if device.me.busy is not None:
            device.finish()
        if device.me.delivery is not None:
            device(Receipt("r", 1, device.me.delivery.round, "accepted"))
    trained = [action.round for action in device.did if isinstance(action, Train)]
    assert trained == sorted(set(trained))
    assert trained[-1] == ROUNDS
    settled = [action.round for action in device.did if isinstance(action, Settle)]
    assert settled == trained
    assert device.me.waiting == ()
    assert device.waiting["r"] == []
    for action in device.did:
        if isinstance(action, Train):
            assert Shared("r", 1, action.base_round, action.base) in arrived


SEEING = RoundSpec("r", "fleet", {"budget": {"epsilon": 3.0}}, {})


def test_in_a_fleet_with_a_budget_nothing_is_measured_for_anybody(device):
    bounded = RoundSpec("r", "fedproto", {"budget": {"epsilon": 3.0}}, {})
    opened = Announced("r", 1, 2, "open", ("b",), 1, "s1", False, bounded)
    assert device(opened, state(1)) == []
    trained = device(Announced("r", 1, 3, "open", None, 1, "s1", False, bounded))
    assert trained == [Train("r", 3, 1, "s1", False, False, bounded)]
    assert device.me.budget is True


def test_a_round_about_the_fleets_bundle_waits_for_the_bundle(device):
    opened = Announced("r", 1, 1, "open", None, 0, "s0", False, SEEING)
    assert device(opened, state(0)) == []
    assert device(BundleReady(here=False)) == []
    assert kinds(device(BundleReady(here=True))) == [Train]
    assert DeviceState(RetryRules("a")).budget is None


def test_whoever_heard_a_state_first_says_what_there_is_when_it_is_known_that_it_may():
    made = Driven()
    made(LinkUp())
    assert kinds(made(state(0))) == [OpenRun, Birth]
    assert made.me.budget is None
    assert made(Coordinator("r", 1, True)) == [Birth("r", 1)]
    assert made(Coordinator("r", 1, True)) == []
    made = Driven()
    made(LinkUp(), state(0))
    assert made(Coordinator("r", 1, True, budget=True)) == []
