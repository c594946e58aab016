"""What a device does when something happens: one pure function from (device, event, time) to
(device, actions).

Nothing here reads a clock, a file or a socket.
"""

# Theory of operation
#
# `step` takes one event in (`_apply`), then does what has become due: it delivers what waits
# (`_deliver`), and trains or measures (`_work`). What is due is computed from the state alone, not
# from the event. So messages may come in any order, twice or not at all: the same facts end in the
# same actions. An action that has an outcome is answered by another event.
#
#   event               what is remembered                        actions at once
#   LinkUp              connected                                 Birth
#   LinkDown            not connected, nothing on its way
#   Coordinator         mode, boot; offline: no announcement      } a new run: OpenRun, Birth
#   Announced           unless older than the last one            } a higher epoch: Birth
#   Shared, Own         unless older than the last one            } a lower epoch: ignored
#   Called              nothing: what is said is in the store     Mask, if its round waits
#   Masked              its upload is sent anew: as what is new
#   Opened              how far the store is in this run
#   Receipt, final      its upload waits no longer                Settle
#   Receipt, missing    its upload is given more time             SendChunks
#   Receipt, noted      its upload waits, and is not sent for as
#                       long as can be: the group goes on
#   Requeued            its upload waits again
#   Trained             idle; the round's upload waits
#   Failed, again       idle for a while; at last as `round`
#   Failed, round       idle; the round is given up               Report, Birth
#   Failed, device      idle; no training in this run             Report
#   Evaluated           idle
#   OwnerLimits         what the owner allows                     Birth, if they are lifted
#   BundleReady         whether the fleet's bundle is here
#   NewSamples          no block and no failure any more          Birth
#
#   due action          when
#   Requeue             an open round asks for an upload that has its receipt: once a boot
#   Send                connected and allowed: the oldest that waits, again after each back-off
#   Train               idle; the round is open, asks for us and is not trained; exactly the states
#                       it names are here (asynchronously, newer ones than were trained on last),
#                       and where it is about a bundle's features that bundle
#   Report              as Train, but the owner forbids it: once a round
#   Evaluate            idle, no round to train, and a state that is not measured yet
#
# - Trained means in the outbox: checkpoint and upload are one commit. So `trained` only rises, no
#   round is trained twice, and what a crash costs is done again with the same outcome. A round
#   superseded before its training began is skipped; training that runs is finished and delivered.
# - An upload is sent until it has a final receipt. `refused` is one, but for `unknown-round`: that
#   coordinator lost its last writes and will come to the round again.
# - The higher epoch of a run wins for ever (the store keeps `epochs`), but one that is far above
#   all that was heard is nobody's and not believed (`protofleet.wire.epochs`). A run that was left
#   is gone back to by an epoch not below the present one only. A run never heard of is always
#   followed: its coordinator may have lost its directory, and the epochs with it.
# - A coordinator with another epoch or boot may have lost receipts that it gave. So the device
#   forgets what it `answered` and delivers the open round again; `duplicate` is a final receipt.
# - Where sums are masked nothing changes here but that: what is sent of an upload that waits is its
#   newest letter (`protocol.seat`), and the final receipt comes when its round is over.
# - A Report excuses this device from the round and is remembered as "declines"; a Birth takes that
#   back. So one follows whatever lifts a refusal, and a round that was given up for good.
#
# - A fleet with a budget (`protofleet.budget.private`) is told nothing of samples but in uploads:
#   births do not count them (nor before it is known whether there is a budget), states are not
#   measured for anybody.
#
# Traps: before the run is `opened` nothing may be sent or trained, as nobody knows what was. `busy`
# outlives a change of run, as the training process does. States are compared by (round, base),
# never by the round alone: a coordinator that lost a state makes another one of the same round.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edge_agent.protocol.actions import (
    Action,
    Birth,
    Evaluate,
    Mask,
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
    Called,
    Coordinator,
    Evaluated,
    Event,
    Failed,
    LinkDown,
    LinkUp,
    Masked,
    NewSamples,
    Opened,
    Own,
    OwnerLimits,
    Receipt,
    Requeued,
    Shared,
    TimePassed,
    Trained,
)
from edge_agent.protocol.retry import RetryRules
from protofleet.wire import epochs
from protofleet.wire.codes import FINAL, Reason, RoundPhase, Scope, UploadStatus


@dataclass(frozen=True)
class PendingDelivery:
    """The upload that is on its way."""

    round: int
    attempts: int
    retry_at: float  # when it goes out again


@dataclass(frozen=True)
class DeviceState:
    """All that the next step depends on."""

    rules: RetryRules
    connected: bool = False
    run: str = ""
    epoch: int = -1
    epochs: Mapping[str, int] = field(default_factory=dict)  # the highest epoch of every run
    opened: bool = False  # the store has said how far this run is
    asynchronous: bool = False
    announced: Announced | None = None
    shared: Shared | None = None
    own: Own | None = None
    trained: int = 0
    trained_on: int = -1  # the round out of which the state came that was trained on last
    boot: str = ""  # the coordinator's present life
    answered: frozenset[int] = frozenset()  # rounds not to be delivered to this life once more
    waiting: tuple[int, ...] = ()
    delivery: PendingDelivery | None = None
    busy: Train | Evaluate | None = None
    evaluated: tuple[int, str] | None = None
    limits: OwnerLimits = field(default_factory=OwnerLimits)
    blocked: str = ""  # why this device cannot train at all in this run
    failed: tuple[int, int] = (0, 0)  # a round and how often its training failed
    not_before: float = 0.0
    reported: tuple[int, str] = (0, "")  # the last refusal to train that was reported
    budget: bool | None = None  # whether the run has one; none: nobody has said yet
    extractor: bool = False  # the fleet's bundle is here


Step = tuple[DeviceState, list[Action]]


def step(me: DeviceState, event: Event, now: float) -> Step:
    """Take the event in, then do what has become due."""
    me, actions = _apply(me, event, now)
    me, deliveries = _deliver(me, now)
    me, work = _work(me, now)
    return me, actions + deliveries + work


def _apply(me: DeviceState, event: Event, now: float) -> Step:
    match event:
        case Coordinator() | Announced() | Shared() | Own() | Called():
            return _hear_coordinator(me, event)
        case Opened() | Requeued() | Masked() | Receipt() | Trained() | Failed() | Evaluated():
            return _apply_outcome(me, event, now)
        case LinkUp() | LinkDown():
            me = replace(me, connected=isinstance(event, LinkUp), delivery=None)
            return me, _birth(me)
        case OwnerLimits():
            lifted = bool(me.limits.refusal) and not event.refusal
            return replace(me, limits=event), _birth(me) if lifted else []
        case NewSamples():
            return replace(me, blocked="", failed=(0, 0), not_before=0.0), _birth(me)
        case BundleReady() | TimePassed():
            return (replace(me, extractor=event.here) if isinstance(event, BundleReady) else me), []


Outcome = Opened | Requeued | Masked | Receipt | Trained | Failed | Evaluated


def _apply_outcome(me: DeviceState, event: Outcome, now: float) -> Step:
    """What came of an action, perhaps of one for a run that is over."""
    match event:
        case Failed():
            return _failed(me, event, now)
        case Evaluated():
            me = replace(me, busy=None if isinstance(me.busy, Evaluate) else me.busy)
        case Trained():
            me = _trained(me, event)
        case Opened():
            me = _opened(me, event)
        case Requeued():
            me = _requeued(me, event)
        case Masked():
            me = _masked(me, event)
        case Receipt():
            return _receipt(me, event, now)
    return me, []


def _hear_coordinator(
    me: DeviceState, event: Coordinator | Announced | Shared | Own | Called
) -> Step:
    """Follow whoever speaks, unless it has been replaced, and remember what it says."""
    if _superseded(me, event.run, event.epoch):
        return me, []
    me, actions = _follow(me, event.run, event.epoch)
    match event:
        case Coordinator():
            return _known(me, _coordinator(me, event), actions)
        case Announced():
            return _known(me, _announced(me, event), actions)
        case Shared():
            return me if _older(event, me.shared) else replace(me, shared=event), actions
        case Own():
            return me if _older(event, me.own) else replace(me, own=event), actions
        case Called(run, _, round, word):
            return me, [*actions, Mask(run, round, word)]


def _known(before: DeviceState, me: DeviceState, actions: list[Action]) -> Step:
    """A birth went out that did not say what there is, as nobody knew yet whether it may."""
    again = before.budget is None and me.budget is False and not actions
    return me, _birth(me) if again else actions


def _superseded(me: DeviceState, run: str, epoch: int) -> bool:
    """Whether a newer coordinator than this one has spoken, or this one cannot be."""
    highest = me.epochs.get(run, -1)
    if not epochs.is_sound(highest):
        highest = -1  # from before there were bounds: it would shut the run out for good
    left_behind = run != me.run and highest >= 0 and epoch < me.epoch
    known = max(highest, me.epoch) if highest >= 0 else -1
    return epoch < highest or left_behind or not epochs.is_credible(epoch, known)


def _follow(me: DeviceState, run: str, epoch: int) -> Step:
    """Be a device of this run and epoch."""
    if run == me.run and epoch == me.epoch:
        return me, []
    highest = {**me.epochs, run: epoch}
    birth: list[Action] = [Birth(run, epoch)] if me.connected else []
    if run == me.run:
        # The same learning under a coordinator that was started anew: states and progress stay,
        # and what has no receipt goes out again.
        fresh = replace(me, epoch=epoch, epochs=highest, answered=frozenset())
        return replace(fresh, announced=None, delivery=None, blocked=""), birth
    new = DeviceState(
        me.rules,
        me.connected,
        run,
        epoch,
        highest,
        busy=me.busy,
        limits=me.limits,
        extractor=me.extractor,
    )
    return new, [OpenRun(run, epoch), *birth]


def _coordinator(me: DeviceState, event: Coordinator) -> DeviceState:
    answered = me.answered if event.boot == me.boot else frozenset()
    me = replace(me, asynchronous=event.asynchronous, boot=event.boot, answered=answered)
    me = replace(me, budget=event.budget if event.online else me.budget)
    # A coordinator that comes back may have lost its last round; what it says then is no echo of
    # the past, though its round is lower.
    return me if event.online else replace(me, announced=None)


def _announced(me: DeviceState, event: Announced) -> DeviceState:
    if _older(event, me.announced):
        return me
    delivery = me.delivery
    backing_off = delivery is not None and delivery.attempts > 0 and delivery.round == event.round
    if backing_off and event != me.announced:
        delivery = None  # it is asked for just now: the next wait, however long, is over
    return replace(me, announced=event, delivery=delivery, budget=event.spec.budget)


def _older(event: Announced | Shared | Own, newest: Announced | Shared | Own | None) -> bool:
    return newest is not None and (event.epoch, event.round) < (newest.epoch, newest.round)


def _opened(me: DeviceState, event: Opened) -> DeviceState:
    if event.run != me.run:
        return me
    return replace(
        me,
        opened=True,
        trained=event.trained,
        trained_on=event.trained_on,
        waiting=tuple(sorted(event.waiting)),
    )


def _requeued(me: DeviceState, event: Requeued) -> DeviceState:
    if event.run != me.run:
        return me
    return replace(me, waiting=tuple(sorted({*me.waiting, event.round})))


def _masked(me: DeviceState, event: Masked) -> DeviceState:
    under_way = me.delivery is not None and me.delivery.round == event.round
    return replace(me, delivery=None) if under_way and event.run == me.run else me


def _receipt(me: DeviceState, event: Receipt, now: float) -> Step:
    if event.run != me.run or event.round not in me.waiting:
        return me, []  # an echo: it was settled by an earlier one
    delivery = me.delivery
    if delivery is not None and delivery.round != event.round:
        delivery = None  # the receipt is not for what is on its way
    if event.status == UploadStatus.MISSING:
        if delivery is not None:
            # The coordinator is at it: chunks take their time, and each request for more is a
            # sign of life.
            fresh = replace(delivery, attempts=0, retry_at=now + me.rules.wait(0))
            me = replace(me, delivery=fresh)
        return me, [SendChunks(me.run, event.round, event.digest, event.missing)]
    if event.status == UploadStatus.NOTED and delivery is not None:
        patient = replace(delivery, retry_at=now + me.rules.longest_wait * me.rules.spread)
        return replace(me, delivery=patient), []
    if event.status not in FINAL or event.reason == Reason.UNKNOWN_ROUND:
        return me, []
    me = replace(
        me,
        waiting=tuple(round for round in me.waiting if round != event.round),
        delivery=me.delivery if delivery is None else None,
        answered=me.answered | {event.round},
    )
    return me, [Settle(me.run, event.round, event.status, event.reason, event.words, event.epoch)]


def _trained(me: DeviceState, event: Trained) -> DeviceState:
    me = replace(me, busy=None)
    if event.run != me.run:
        return me  # a run that is over: it waits in the outbox, should that run come back
    return replace(
        me,
        trained=max(me.trained, event.round),
        trained_on=event.base_round,
        waiting=tuple(sorted({*me.waiting, event.round})),
        failed=(0, 0),
    )


def _failed(me: DeviceState, event: Failed, now: float) -> Step:
    task, me = me.busy, replace(me, busy=None)
    if isinstance(task, Evaluate) or event.run != me.run:
        return me, []
    if event.scope == Scope.DEVICE:
        return replace(me, blocked=event.words), [Report(me.run, event.round, event.words)]
    count = me.failed[1] + 1 if me.failed[0] == event.round else 1
    if event.scope == Scope.ROUND or count >= me.rules.tries:
        # The round need not wait for this device; the birth after it says that the next one may
        # ask again.
        given_up = replace(me, failed=(event.round, me.rules.tries))
        return given_up, [Report(me.run, event.round, event.words), *_birth(me)]
    return replace(me, failed=(event.round, count), not_before=now + me.rules.wait(count - 1)), []


def _birth(me: DeviceState) -> list[Action]:
    return [Birth(me.run, me.epoch)] if me.connected else []


def _deliver(me: DeviceState, now: float) -> Step:
    """Send what waits, the oldest first, one at a time; ask again for what the coordinator seems to
    have lost.
    """
    if not me.opened:
        return me, []
    actions: list[Action] = []
    announced = me.announced
    if announced is not None and _asks_again(me, announced):
        me = replace(me, answered=me.answered | {announced.round})
        actions.append(Requeue(me.run, announced.round))
    if not me.connected or not me.waiting or not me.limits.may_send:
        return me, actions
    oldest, delivery, attempts = me.waiting[0], me.delivery, 0
    if delivery is not None and delivery.round == oldest:
        if now < delivery.retry_at:
            return me, actions
        attempts = delivery.attempts + 1
    me = replace(me, delivery=PendingDelivery(oldest, attempts, now + me.rules.wait(attempts)))
    return me, [*actions, Send(me.run, oldest, me.epoch)]


def _asks_again(me: DeviceState, announced: Announced) -> bool:
    """Whether a round that was answered long ago is open: its coordinator came back without its
    last writes.
    """
    settled = announced.round <= me.trained and announced.round not in me.waiting
    return settled and announced.round not in me.answered and _asks(me, announced)


def _work(me: DeviceState, now: float) -> Step:
    """Train if a round is due; else measure a state that is new."""
    if me.busy is not None or not me.opened:
        return me, []
    if me.announced is not None and _to_train(me, me.announced):
        return _train(me, me.announced, now)
    return _evaluate(me) if _unmeasured(me) else (me, [])


def _to_train(me: DeviceState, announced: Announced) -> bool:
    """Whether this round is asked for, possible and not trained yet."""
    if not _asks(me, announced) or announced.round <= me.trained or not _here(me, announced):
        return False
    if announced.spec.by_features and not me.extractor:
        return False  # it is being fetched
    # Synchronously a round without exchange keeps its base, and is trained all the same.
    return not me.asynchronous or announced.base_round > me.trained_on


def _unmeasured(me: DeviceState) -> bool:
    """Whether the newest state has not been measured; the one that a run begins with never is."""
    state = me.shared
    return (
        me.rules.evaluate
        and not me.budget
        and state is not None
        and state.round > 0
        and me.evaluated != (state.round, state.base)
    )


def _train(me: DeviceState, round: Announced, now: float) -> Step:
    refusal = me.blocked or me.limits.refusal
    if refusal:
        report = (round.round, refusal)
        silent = bool(me.blocked) or me.reported == report  # a block was reported when it arose
        actions: list[Action] = [] if silent else [Report(me.run, *report)]
        return replace(me, reported=report), actions
    given_up = me.failed[0] == round.round and me.failed[1] >= me.rules.tries
    if given_up or now < me.not_before:
        return me, []
    base = (round.base_round, round.base)
    # The state is measured on the way, while the network that holds it is at hand.
    train = Train(me.run, round.round, *base, round.own, _unmeasured(me), round.spec)
    return replace(me, busy=train, evaluated=base), [train]


def _evaluate(me: DeviceState) -> Step:
    """Measure the newest state: the one an open round names, or what came out of a round that is
    over.
    """
    announced, state = me.announced, me.shared
    if announced is None or state is None or me.blocked or me.limits.refusal:
        return me, []
    over = announced.phase != RoundPhase.OPEN and state.round >= announced.round
    if not over and not _here(me, announced):
        return me, []
    base = (state.round, state.base)
    if announced.own and (me.own is None or (me.own.round, me.own.base) != base):
        return me, []
    task = Evaluate(me.run, announced.round, *base, announced.own, announced.spec)
    return replace(me, busy=task, evaluated=base), [task]


def _asks(me: DeviceState, announced: Announced) -> bool:
    """Whether the round is open and this device takes part in it."""
    return announced.phase == RoundPhase.OPEN and announced.asks(me.rules.agent)


def _here(me: DeviceState, announced: Announced) -> bool:
    """Whether the states that an announcement names are the ones that are in the store."""
    base = (announced.base_round, announced.base)
    shared = me.shared is not None and (me.shared.round, me.shared.base) == base
    own = not announced.own or (me.own is not None and (me.own.round, me.own.base) == base)
    return shared and own
