"""The daemon: one loop that carries events to the protocol and its actions to link, store and training process.

It never waits for anything but its next event. All rules are in `edge_agent.protocol`; all that must not be lost is in
the store before the broker is told that it arrived.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime

from edge_agent import inbound, status, voice, watch
from edge_agent.allowance import Spent, allowed
from edge_agent.config import Config
from edge_agent.foreman import Foreman
from edge_agent.happenings import (
    Action,
    Again,
    Announced,
    Birth,
    Connected,
    Evaluate,
    Evaluated,
    Event,
    Failed,
    Limits,
    Lost,
    NewSamples,
    Opened,
    OpenRun,
    Receipt,
    Report,
    Send,
    SendChunks,
    Settle,
    Tick,
    Train,
    Trained,
)
from edge_agent.logs import Log
from edge_agent.orders import Answer, Broken, Done, Gone, Look, Measured, Notice, Plan, Seen, Work
from edge_agent.protocol import Device, Rules, step
from edge_agent.status import Status
from edge_agent.store import Held, Store, StoreError
from edge_agent.systemd import Notifier
from edge_agent.transfers import Transfers
from protofleet import wire
from protofleet.errors import FleetError, LinkError
from protofleet.mqtt import events as broker
from protofleet.mqtt.link import Link
from protofleet.mqtt.topics import Place, Topics

PATIENCE = 10.0  # seconds to hear from a coordinator before the silence is remarked upon
LONGEST_NAP = 5.0


class NotLetIn(LinkError):
    """The broker refuses this device, and waiting will not change that."""

    code = "refused"


@dataclass(frozen=True)
class Around:
    """What a daemon is given of the world."""

    config: Config
    link: Link
    store: Store
    foreman: Foreman
    transfers: Transfers
    log: Log
    notifier: Notifier
    boot: str
    retry: bool
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = datetime.now


class Daemon:
    """A device's life from start to stop."""

    def __init__(self, around: Around, rules: Rules, seen: Seen) -> None:
        self.around = around
        self.topics = Topics(around.config.fleet.name)
        known = {run: int(epoch) for run, epoch in around.store.all_noted("epoch/").items()}
        self.me = Device(rules, epochs=known)
        self.voice = voice.Voice(around.link, self.topics, around.config, around.boot, self._count)
        self.seen = seen
        self.version = 0
        self._plans: dict[Announced, Plan] = {}
        self._spent = _spent(around.store.noted("spent"), around.now().date())
        self._spent_noted = self._spent
        self._stamp = self._settling = watch.stamp(around.config.data)
        self._watched = self._noted = self._idle_since = around.clock()
        self._listening_since: float | None = None
        self._missed = False
        self._stopping = False
        self._refused = ""
        self._status = Status(
            around.config.id, around.config.fleet.name, str(around.link.address), os.getpid(), samples=seen.samples,
            classes=seen.classes,
        )  # fmt: skip
        self._written: Status | None = None

    def stop(self) -> None:
        """End the loop soon; may be called by a signal."""
        self._stopping = True
        self.around.link.wake()

    def run(self) -> None:
        """Until `stop`, or until the broker will not have us."""
        agent = self.around.config.id
        self.around.link.subscribe(self.topics.for_device(agent))
        self.around.link.start()
        self.around.notifier.say("READY=1")
        self.around.log.info("started", agent=agent, broker=self.around.link.address, samples=self.seen.samples)
        try:
            while not self._stopping:
                for event in self.around.link.poll(self._nap()):
                    self._from_link(event)
                for answer in self.around.foreman.answers():
                    self._from_worker(answer)
                self._look_around()
                self._feed(Tick())
                self._tell()
        finally:
            self._leave()
        if self._refused:
            raise NotLetIn(self._refused, "--retry keeps trying")

    def _leave(self) -> None:
        self.around.notifier.say("STOPPING=1")
        self.around.foreman.dismiss()
        self.around.link.stop([voice.farewell(self.topics, self.around.config.id, self.around.boot)], patience=4.0)
        self._note_spent()
        self._status = replace(self._status, doing="stopped", connected=False, training_pid=None)
        status.write(self.around.config.data_dir, self._status, self.around.now().astimezone().isoformat())
        self.around.log.info("stopped")

    def _nap(self) -> float:
        due = [self.around.clock() + LONGEST_NAP]
        if self.me.delivery is not None and self.me.connected:
            due.append(self.me.delivery.due)
        if self.me.not_before:
            due.append(max(self.me.not_before, self.around.clock() + 0.2))
        if self.around.notifier.every:
            due.append(self.around.clock() + self.around.notifier.every)
        return max(0.0, min(due) - self.around.clock())

    def _feed(self, event: Event) -> None:
        """One step of the protocol, and all that follows from it."""
        before = self.me
        self.me, actions = step(self.me, event, self.around.clock())
        if self.me.epochs is not before.epochs:
            self._keep(lambda: self.around.store.note(**{f"epoch/{r}": str(e) for r, e in self.me.epochs.items()}))
        if len(self._plans) > 1:
            self._plans = {at: plan for at, plan in self._plans.items() if at == self.me.announced}
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        log, store = self.around.log, self.around.store
        match action:
            case Birth(run, epoch):
                self.voice.birth(run, epoch, self.seen)
            case OpenRun(run):
                trained, trained_on = store.standing(run)
                log.info("joined a run", run=run, epoch=action.epoch, trained=trained)
                self._feed(Opened(run, trained, trained_on, store.answered(run), tuple(store.waiting(run))))
            case Train() | Evaluate():
                self._order(action)
            case Send(run, round, epoch):
                self._send(run, round, epoch)
            case SendChunks():
                self.around.transfers.send_chunks(action)
            case Settle(run, round, result, reason, words, epoch):
                self._keep(lambda: store.settle(run, round, result, reason, words, epoch))
                said = log.warning if result in ("refused", "conflict") else log.info
                said(f"upload {result}", round=round, **({"reason": reason, "words": words} if reason else {}))
                self.around.transfers.settled(run, round)
            case Again(run, round):
                self._keep(lambda: store.wait_again(run, round))
            case Report(run, round, refused):
                log.warning(f"not training: {refused}", round=round)
                self.voice.report(run, self.me.epoch, round, {"refused": refused[:200]})

    def _order(self, task: Train | Evaluate) -> None:
        plan = self._plans.get(self.me.announced) if self.me.announced is not None else None
        if plan is None:
            self._feed(Evaluated() if isinstance(task, Evaluate) else Failed(task.run, task.round, "no plan", "again"))
            return
        if isinstance(task, Train):
            self.around.log.info("training", round=task.round, on=task.base[:12])
        self.around.foreman.order(Work(plan, task, self.version))

    def _send(self, run: str, round: int, epoch: int) -> None:
        upload = self.around.store.upload(run, round)
        if upload is None:
            self._feed(Receipt(run, epoch, round, "refused", "lost", "its bytes are no longer in the outbox"))
            return
        agent = self.around.config.id
        message = voice.upload_message(self.topics.fleet, agent, upload, epoch)
        sent = self.voice.say(self.topics.upload(agent, round), self.around.transfers.outgoing(run, round, message))
        self.around.log.info(
            "upload sent" if sent else "upload waits: the link is full", round=round, bytes=len(message)
        )

    def _from_link(self, event: broker.Event) -> None:
        log = self.around.log
        match event:
            case broker.Connected():
                log.info("connected", broker=self.around.link.address, mqtt=event.protocol)
                self._status = replace(self._status, connected=True, trouble="", coordinator=False)
                self._listening_since = self.around.clock()
                self._feed(Connected())
            case broker.Lost(reason):
                if self._status.trouble != reason:
                    log.warning(f"no connection, trying on: {reason}", broker=self.around.link.address)
                self._status = replace(self._status, connected=False, trouble=reason)
                self._listening_since = None
                self._feed(Lost())
            case broker.Refused(reason):
                if self._status.trouble != reason:
                    log.error(f"the broker refuses this device: {reason}", broker=self.around.link.address)
                self._status = replace(self._status, connected=False, trouble=reason)
                self._feed(Lost())
                if not self.around.retry:
                    self._refused = f"{self.around.link.address} refuses this device: {reason}"
                    self._stopping = True
            case broker.Denied(topic, reason):
                log.warning(f"the broker does not allow {topic}: {reason}")
            case broker.Arrival():
                self._arrived(event)
            case _:
                return

    def _arrived(self, arrival: broker.Arrival) -> None:
        """Take a message in; it is acknowledged once it is safe, or known to be of no use."""
        self._count(len(arrival.payload))
        place = self.topics.parse(arrival.topic)
        try:
            if place is not None:
                self._understood(place, arrival.payload)
        except StoreError as error:
            self._trouble(error)
            return
        except FleetError as error:
            self.around.log.warning(f"a message that cannot be used: {error}", topic=arrival.topic)
        self.around.link.ack(arrival)

    def _understood(self, place: Place, payload: bytes) -> None:
        if place.kind in ("blob", "blob_down"):
            whole = self.around.transfers.chunk(place.rest[0], int(place.rest[1]), payload)
            if whole is not None:
                self._understood(whole.place, whole.payload)
            return
        if place.kind not in ("coordinator_state", "round", "train", "down", "receipt") or not payload:
            return  # kept for what comes next; an empty payload takes a retained message back
        envelope, _ = wire.unseal(payload)
        if envelope.fleet != self.topics.fleet:
            raise LinkError(f"it is of fleet {envelope.fleet!r}, this device is of {self.topics.fleet!r}")
        if envelope.t == "slip":
            whole = self.around.transfers.slip(place, wire.decode(payload))
            if whole is not None:
                self._understood(whole.place, whole.payload)
            return
        if envelope.t in ("global", "own"):
            found = inbound.state(envelope)
            self.around.store.hold(envelope.t, Held(found.run, found.round, found.base, payload))
            self._feed(found)
            return
        document = wire.decode(payload).body
        match envelope.t:
            case "state":
                told = inbound.coordinator(envelope, document)
                self._status = replace(self._status, coordinator=told.online)
                self._listening_since = None
                self._feed(told)
            case "round":
                announced = inbound.announcement(envelope, document)
                self._plans[announced.event] = announced.plan
                self.around.transfers.packet = announced.packet or self.around.transfers.packet
                self._feed(announced.event)
            case "receipt":
                self._receipt(inbound.receipt(envelope, document))

    def _receipt(self, found: Receipt) -> None:
        """Only for the bytes that were sent: a receipt from before may be about others."""
        upload = self.around.store.upload(found.run, found.round)
        ours = upload is not None and found.digest in (
            upload.digest,
            self.around.transfers.digest(found.run, found.round),
        )
        if ours or found.status == "conflict":
            self._feed(found)

    def _from_worker(self, answer: Answer) -> None:
        log = self.around.log
        match answer:
            case Seen():
                self.seen = answer
                self._status = replace(self._status, samples=answer.samples, classes=answer.classes)
                log.info("the samples changed", samples=answer.samples, classes=len(answer.classes))
                self._feed(NewSamples())
            case Measured():
                told = voice.accuracy(answer)
                self._status = replace(self._status, accuracy=tuple(told["accuracy"].items()))
                shown = {name: f"{value:.4f}" for name, value in told["accuracy"].items()}
                log.info("measured", round=answer.round, **shown)
                self.voice.report(answer.run, self.me.epoch, answer.round, told)
            case Notice(words):
                log.warning(words)
                self.voice.report(self.me.run, self.me.epoch, self.me.trained, {"notice": words[:200]})
            case Done(Train() as task):
                log.info("trained", round=task.round, seconds=f"{answer.seconds:.2f}", peak_mb=answer.peak_mb)
                self._feed(Trained(task.run, task.round, task.base_round))
            case Done():
                self._feed(Evaluated())
            case Broken(Look(), words):
                log.error(f"the samples cannot be read: {words}")
            case Broken(Evaluate() as task, words):
                log.error(f"not measured: {words}", round=task.base_round)
                self._feed(Evaluated())
            case Broken(Train() as task, words, _, scope):
                self._feed(Failed(task.run, task.round, words, scope))
            case Gone(words):
                self._gone(words)
        self._idle_since = self.around.clock()

    def _gone(self, words: str) -> None:
        task = self.me.busy
        self.around.log.warning(words)
        if isinstance(task, Train):
            # It may have died between its commit and its word of it.
            done = self.around.store.standing(task.run)[0] >= task.round
            gone = Failed(task.run, task.round, words, "again")
            self._feed(Trained(task.run, task.round, task.base_round) if done else gone)
        elif task is not None:
            self._feed(Evaluated())

    def _look_around(self) -> None:
        """What changes without a message: the clock, the disk, the samples, a training process that idles."""
        around, now = self.around, self.around.clock()
        around.notifier.alive(now)
        limits = allowed(around.config.limits, around.config.data_dir, self._spent, around.now())
        if limits != self.me.limits:
            self._limits(limits)
        around.transfers.look_around(self.me.connected)
        if self._listening_since is not None and now - self._listening_since > PATIENCE:
            self._listening_since = None
            around.log.warning(
                f"no coordinator speaks in fleet {self.topics.fleet!r} yet: is it running, and is [fleet] name right?"
            )
        if now - self._noted > 60:
            self._noted = now
            self._note_spent()
        if self.me.busy is not None:
            self._idle_since = now
        elif around.foreman.pid is not None and now - self._idle_since > around.config.limits.idle_seconds:
            around.foreman.dismiss()
        self._watch(now)

    def _limits(self, limits: Limits) -> None:
        if limits.refusal != self.me.limits.refusal:
            self.around.log.info((limits.refusal and f"it may not train: {limits.refusal}") or "it may train again")
        if self._missed and not limits.refusal.startswith("disk"):
            self._missed = False  # what could not be kept is retained by the broker, and comes again
            agent = self.around.config.id
            self.around.link.subscribe([(self.topics.train, 1), (self.topics.down(agent), 1)])
        self._feed(limits)

    def _watch(self, now: float) -> None:
        """Notice new samples once they have stopped coming; never while a round is trained."""
        every = self.around.config.data.watch_seconds
        if not every or now - self._watched < every or self.me.busy is not None:
            return
        self._watched = now
        found = watch.stamp(self.around.config.data)
        if found != self._stamp and found == self._settling:
            self._stamp = found
            self.version += 1
            self.around.foreman.order(Look())
        self._settling = found

    def _keep(self, write: Callable[[], object]) -> None:
        try:
            write()
        except StoreError as error:
            self._trouble(error)

    def _trouble(self, error: StoreError) -> None:
        """A full disk passes; anything else is the end."""
        if error.code != "disk-full":
            raise error
        self._missed = True
        self.around.log.error(str(error))

    def _count(self, bytes: int) -> None:
        self._spent = self._spent.add(bytes, self.around.now().date())

    def _note_spent(self) -> None:
        if self._spent != self._spent_noted:
            self._spent_noted = self._spent
            self._keep(lambda: self.around.store.note(spent=f"{self._spent.day.isoformat()} {self._spent.bytes}"))

    def _tell(self) -> None:
        me, asked = self.me, self.me.announced
        doing = "training" if isinstance(me.busy, Train) else "measuring" if me.busy else "waiting"
        plan = self._plans.get(asked) if asked is not None else None
        self._status = replace(
            self._status, run=me.run, epoch=me.epoch, round=asked.round if asked else 0, doing=doing,
            phase=asked.phase if asked else "", trained=me.trained, refusal=me.blocked or me.limits.refusal,
            method=plan.method if plan else "", bytes_today=self._spent.bytes, training_pid=self.around.foreman.pid,
        )  # fmt: skip
        shown = replace(self._status, bytes_today=0)
        if shown != self._written:
            self._written = shown
            status.write(self.around.config.data_dir, self._status, self.around.now().astimezone().isoformat())


def _spent(noted: str | None, today: date) -> Spent:
    day, _, count = (noted or "").partition(" ")
    same = day == today.isoformat() and count.isdigit()
    return Spent(today, int(count) if same else 0)
