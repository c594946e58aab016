"""What a device does when something happens: one pure function from (device, event, time) to
(device, actions).

The rules: a round is trained only when it is open, this device is asked, and exactly the states it
names are here; what was trained is delivered, the oldest first, again and again until there is a
receipt; a round that was superseded before its training began is skipped. Of two announcements the
newer counts (higher epoch, then higher round), in whatever order they arrive. Nothing here reads a
clock, a file or a socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edge_agent.protocol.actions import (
    Action,
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
    Coordinator,
    Evaluated,
    Event,
    Failed,
    LinkDown,
    LinkUp,
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
from protofleet.wire.codes import FINAL, Reason, Scope


@dataclass(frozen=True)
class PendingDelivery:
    """The upload that is on its way."""

    round: int
    attempts: int
    due: float  # when it goes out again


@dataclass(frozen=True)
class DeviceState:
    """All that the next step depends on."""

    rules: RetryRules
    connected: bool = False
    run: str = ""
    epoch: int = -1
    epochs: Mapping[str, int] = field(default_factory=dict)  # the highest epoch seen of every run
    opened: bool = False  # the store has said how far this run is
    asynchronous: bool = False
    announced: Announced | None = None
    shared: Shared | None = None
    own: Own | None = None
    trained: int = 0
    trained_on: int = -1  # the round out of which the state came that was trained on last
    boot: str = ""  # the coordinator's present life
    answered: frozenset[int] = (
        frozenset()
    )  # rounds that need not be delivered to this life of the coordinator
    waiting: tuple[int, ...] = ()
    delivery: PendingDelivery | None = None
    busy: Train | Evaluate | None = None
    evaluated: tuple[int, str] | None = None
    limits: OwnerLimits = field(default_factory=OwnerLimits)
    blocked: str = ""  # why this device cannot train at all in this run
    failed: tuple[int, int] = (0, 0)  # a round and how often its training failed
    not_before: float = 0.0
    said: tuple[int, str] = (0, "")  # the last refusal to train that was reported


Step = tuple[DeviceState, list[Action]]


def step(me: DeviceState, event: Event, now: float) -> Step:
    """Take the event in, then do what has become due."""
    me, actions = _taken(me, event, now)
    me, due = _deliver(me, now)
    actions += due
    me, due = _work(me, now)
    return me, actions + due


def _taken(me: DeviceState, event: Event, now: float) -> Step:  # noqa: PLR0911
    match event:
        case TimePassed():
            return me, []
        case LinkUp():
            return replace(me, connected=True, delivery=None), [Birth(me.run, me.epoch)]
        case LinkDown():
            return replace(me, connected=False, delivery=None), []
        case Coordinator() | Announced() | Shared() | Own():
            me, actions = _joined(me, event.run, event.epoch)
            return (me if actions is None else _told(me, event)), actions or []
        case Opened() if event.run == me.run:
            return _opened(me, event), []
        case Requeued() if event.run == me.run:
            return replace(me, waiting=tuple(sorted({*me.waiting, event.round}))), []
        case Receipt() if event.run == me.run:
            return _receipt(me, event, now)
        case Trained():
            return _trained(me, event), []
        case Failed():
            return _failed(me, event, now)
        case Evaluated():
            return replace(me, busy=None if isinstance(me.busy, Evaluate) else me.busy), []
        case OwnerLimits():
            lifted = bool(me.limits.refusal) and not event.refusal
            return replace(me, limits=event), _birth(me) if lifted else []
        case NewSamples():
            fresh = replace(me, blocked="", failed=(0, 0), not_before=0.0)
            return fresh, _birth(me)
    return me, []  # a receipt or an answer for a run that is over


def _joined(me: DeviceState, run: str, epoch: int) -> tuple[DeviceState, list[Action] | None]:
    """Follow the coordinator that speaks, or None for one that has been replaced."""
    if run == me.run and epoch == me.epoch:
        return me, []
    seen = me.epochs.get(run, -1)
    if epoch < seen or (run != me.run and seen >= 0 and epoch < me.epoch):
        return me, None
    epochs = {**me.epochs, run: epoch}
    birth: list[Action] = [Birth(run, epoch)] if me.connected else []
    if (
        run == me.run
    ):  # the same learning under a coordinator that was started anew: what has no receipt goes out again
        fresh = replace(me, epoch=epoch, epochs=epochs, answered=frozenset())
        return replace(fresh, announced=None, delivery=None, blocked=""), birth
    new = DeviceState(me.rules, me.connected, run, epoch, epochs, busy=me.busy, limits=me.limits)
    return new, [OpenRun(run, epoch), *birth]


def _told(me: DeviceState, event: Coordinator | Announced | Shared | Own) -> DeviceState:
    match event:
        case Coordinator():
            same = event.boot == me.boot
            answered = me.answered if same else frozenset()
            me = replace(me, asynchronous=event.asynchronous, boot=event.boot, answered=answered)
            # A coordinator that comes back may have lost its last round; what it says then is no
            # echo of the past.
            return me if event.online else replace(me, announced=None)
        case Announced():
            if _older(event, me.announced):
                return me
            tired = (
                me.delivery is not None
                and me.delivery.attempts > 0
                and me.delivery.round == event.round
            )
            anew = (
                tired and event != me.announced
            )  # asked for just now: the next wait, however long, is over
            return replace(me, announced=event, delivery=None if anew else me.delivery)
        case Shared():
            return me if _older(event, me.shared) else replace(me, shared=event)
        case Own():
            return me if _older(event, me.own) else replace(me, own=event)


def _older(event: Announced | Shared | Own, known: Announced | Shared | Own | None) -> bool:
    return known is not None and (event.epoch, event.round) < (known.epoch, known.round)


def _opened(me: DeviceState, event: Opened) -> DeviceState:
    return replace(
        me,
        opened=True,
        trained=event.trained,
        trained_on=event.trained_on,
        waiting=tuple(sorted(event.waiting)),
    )


def _receipt(me: DeviceState, event: Receipt, now: float) -> Step:
    if event.round not in me.waiting:
        return me, []
    if event.status == "missing":
        sent = me.delivery
        if sent is not None and sent.round == event.round:
            me = replace(me, delivery=replace(sent, attempts=0, due=now + me.rules.wait(0)))
        return me, [SendChunks(me.run, event.round, event.digest, event.missing)]
    if event.status not in FINAL or event.reason == Reason.UNKNOWN_ROUND:
        return me, []
    left = tuple(r for r in me.waiting if r != event.round)
    gone = me.delivery is not None and me.delivery.round == event.round
    me = replace(me, waiting=left, delivery=None if gone else me.delivery)
    me = replace(me, answered=me.answered | {event.round})
    return me, [Settle(me.run, event.round, event.status, event.reason, event.words, event.epoch)]


def _trained(me: DeviceState, event: Trained) -> DeviceState:
    me = replace(me, busy=None)
    if event.run != me.run:
        return (
            me  # finished for a run that is over: it waits in the outbox, should that run come back
        )
    waiting = tuple(sorted({*me.waiting, event.round}))
    return replace(
        me,
        trained=max(me.trained, event.round),
        trained_on=event.base_round,
        waiting=waiting,
        failed=(0, 0),
    )


def _failed(me: DeviceState, event: Failed, now: float) -> Step:
    was, me = me.busy, replace(me, busy=None)
    if isinstance(was, Evaluate) or event.run != me.run:
        return me, []
    if event.scope == Scope.DEVICE:
        return replace(me, blocked=event.words), [Report(me.run, event.round, event.words)]
    count = me.failed[1] + 1 if me.failed[0] == event.round else 1
    if event.scope == Scope.ROUND or count >= me.rules.tries:
        # The round need not wait for this device; the birth after it says that the next one may ask
        # again.
        given_up = replace(me, failed=(event.round, me.rules.tries))
        return given_up, [Report(me.run, event.round, event.words), *_birth(me)]
    return replace(me, failed=(event.round, count), not_before=now + me.rules.wait(count - 1)), []


def _birth(me: DeviceState) -> list[Action]:
    return [Birth(me.run, me.epoch)] if me.connected else []


def _deliver(me: DeviceState, now: float) -> Step:
    """Send what waits, the oldest first, one at a time; ask again for what the coordinator seems to
    have lost.
    """
    actions: list[Action] = []
    asked = me.announced
    known = (
        asked is not None
        and asked.round <= me.trained
        and asked.round not in {*me.waiting, *me.answered}
    )
    if me.opened and asked is not None and known and _asks(me, asked):
        # A coordinator that came back without its last writes opens a round again that was answered
        # long ago.
        me = replace(me, answered=me.answered | {asked.round})
        actions.append(Requeue(me.run, asked.round))
    if not me.connected or not me.opened or not me.waiting or not me.limits.may_send:
        return me, actions
    first, sent = me.waiting[0], me.delivery
    if sent is not None and sent.round == first and now < sent.due:
        return me, actions
    attempts = sent.attempts + 1 if sent is not None and sent.round == first else 0
    me = replace(me, delivery=PendingDelivery(first, attempts, now + me.rules.wait(attempts)))
    return me, [*actions, Send(me.run, first, me.epoch)]


def _work(me: DeviceState, now: float) -> Step:
    """Train if a round is due; else measure a state that is new."""
    if me.busy is not None or not me.opened:
        return me, []
    state = me.shared if me.rules.evaluate else None
    new = state is not None and state.round > 0 and me.evaluated != (state.round, state.base)
    due = _due(me)
    return (
        _evaluate(me)
        if due is None and new
        else (me, [])
        if due is None
        else _train(me, due, new, now)
    )


def _train(me: DeviceState, due: Announced, new: bool, now: float) -> Step:
    refusal = me.blocked or me.limits.refusal
    if refusal:
        silent = bool(me.blocked) or me.said == (
            due.round,
            refusal,
        )  # a block was reported when it arose
        return replace(me, said=(due.round, refusal)), [] if silent else [
            Report(me.run, due.round, refusal)
        ]
    given_up = me.failed[0] == due.round and me.failed[1] >= me.rules.tries
    if given_up or now < me.not_before:
        return me, []
    train = Train(me.run, due.round, due.base_round, due.base, due.own, new, due.spec)
    return replace(me, busy=train, evaluated=(due.base_round, due.base)), [train]


def _evaluate(me: DeviceState) -> Step:
    """Measure the newest state: the one an open round names, or what came out of a round that is
    over.
    """
    named, state = me.announced, me.shared
    if named is None or state is None or me.blocked or me.limits.refusal:
        return me, []
    over = named.phase != "open" and state.round >= named.round
    if not over and not _here(me, named):
        return me, []
    if named.own and (me.own is None or (me.own.round, me.own.base) != (state.round, state.base)):
        return me, []
    look = Evaluate(me.run, named.round, state.round, state.base, named.own, named.spec)
    return replace(me, busy=look, evaluated=(state.round, state.base)), [look]


def _due(me: DeviceState) -> Announced | None:
    asked = me.announced
    if asked is None or not _asks(me, asked) or asked.round <= me.trained or not _here(me, asked):
        return None
    return None if me.asynchronous and asked.base_round <= me.trained_on else asked


def _asks(me: DeviceState, asked: Announced) -> bool:
    return asked.phase == "open" and (
        asked.participants is None or me.rules.agent in asked.participants
    )


def _here(me: DeviceState, asked: Announced) -> bool:
    """Whether the states that an announcement names are the ones that are held."""
    want = (asked.base_round, asked.base)
    shared = me.shared is not None and (me.shared.round, me.shared.base) == want
    own = not asked.own or (me.own is not None and (me.own.round, me.own.base) == want)
    return shared and own
