"""The daemon: one loop that carries events to the protocol and its actions to link, store and
training process.

It never waits for anything but its next event. All rules are in `edge_agent.protocol.machine`; all
that must not be lost is in the store before the broker is told that it arrived.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from edge_agent.config import Config
from edge_agent.daemon import outbound, status, upkeep
from edge_agent.daemon.adopt import Adoption, Start, launched
from edge_agent.daemon.executor import ActionExecutor
from edge_agent.daemon.inbound import InboundDecoder
from edge_agent.daemon.status import Status
from edge_agent.daemon.transfers import Transfers
from edge_agent.protocol.actions import Evaluate, Train
from edge_agent.protocol.events import (
    Coordinator,
    Evaluated,
    Event,
    Failed,
    LinkDown,
    LinkUp,
    NewSamples,
    TimePassed,
    Trained,
)
from edge_agent.protocol.machine import DeviceState, step
from edge_agent.protocol.retry import RetryRules
from edge_agent.records import StoreError
from edge_agent.store import Store
from edge_agent.worker.ipc import (
    Answer,
    DataSurvey,
    Measured,
    Notice,
    SurveyData,
    TaskDone,
    TaskFailed,
    WorkerEnded,
)
from edge_agent.worker.supervisor import Supervisor
from protofleet import wire
from protofleet.errors import FleetError, LinkBusy, LinkError
from protofleet.mqtt.link import events as broker
from protofleet.mqtt.link.link import Link
from protofleet.mqtt.topics import Topics
from protofleet.util.logs import Log
from protofleet.util.systemd import Notifier
from protofleet.wire.codes import Scope

LONGEST_NAP = 5.0


class NotLetIn(LinkError):
    """The broker refuses this device, and waiting will not change that."""

    code = "refused"


@dataclass(frozen=True)
class DaemonDeps:
    """What a daemon is given of the world."""

    config: Config
    link: Link
    store: Store
    foreman: Supervisor
    log: Log
    notifier: Notifier
    boot: str
    retry: bool
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = datetime.now
    start: Start = launched


class Daemon:
    """A device's life from start to stop."""

    def __init__(self, around: DaemonDeps, rules: RetryRules, seen: DataSurvey) -> None:
        self.around = around
        self.topics = Topics(around.config.fleet.name)
        known = {run: int(epoch) for run, epoch in around.store.all_noted("epoch/").items()}
        self.me = DeviceState(rules, epochs=known)
        store, foreman, told, now, clock = (
            around.store,
            around.foreman,
            around.config,
            around.clock(),
            around.clock,
        )
        self.account = upkeep.TrafficAccount(store, lambda: around.now().date())
        self.samples = upkeep.SampleWatch(told, now)
        self.idleness = upkeep.IdleWatch(foreman, told.limits.idle_seconds, now)
        self.voice = outbound.Outbound(
            around.link, self.topics, told, around.boot, self.account.count
        )
        spool = told.data_dir / "spool"
        self.transfers = Transfers(
            self.topics, told.id, spool, self.voice, clock, wire.DEFAULT.message
        )
        self.adoption = Adoption(told, self.voice, self.transfers, around.log, clock, around.start)
        self.decoder = InboundDecoder(self.topics, store, self.transfers)
        self.hands = ActionExecutor(store, foreman, self.transfers, self.voice, around.log, seen)
        self.silence = upkeep.CoordinatorWatch(self.topics.fleet, around.log)
        self._ask_again_at = 0.0
        self._stopping = False
        self._refused = ""
        self._status = Status(
            around.config.id,
            around.config.fleet.name,
            str(around.link.address),
            os.getpid(),
            samples=seen.samples,
            classes=seen.classes,
        )
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
        self.around.log.info(
            "started",
            agent=agent,
            broker=self.around.link.address,
            samples=self.hands.survey.samples,
        )
        try:
            while not self._stopping:
                for event in self.around.link.poll(self._nap()):
                    self._from_link(event)
                for answer in self.around.foreman.answers():
                    self._from_worker(answer)
                self._look_around()
                self._feed(TimePassed())
                self._tell()
        finally:
            self._leave()
        if self._refused:
            raise NotLetIn(self._refused, "--retry keeps trying")

    def _leave(self) -> None:
        self.around.notifier.say("STOPPING=1")
        self.around.foreman.dismiss()
        self.adoption.stop()
        self.around.link.stop(
            [outbound.farewell(self.topics, self.around.config.id, self.around.boot)], patience=4.0
        )
        self.hands.keep(lambda: self.account.note(self.around.clock(), at_once=True))
        self._status = replace(self._status, doing="stopped", connected=False, training_pid=None)
        status.write(
            self.around.config.data_dir, self._status, self.around.now().astimezone().isoformat()
        )
        self.around.log.info("stopped")

    def _nap(self) -> float:
        due = [self.around.clock() + LONGEST_NAP, self.adoption.due(connected=self.me.connected)]
        if self.me.delivery is not None and self.me.connected:
            due.append(self.me.delivery.retry_at)
        if self.me.not_before > self.around.clock():
            due.append(self.me.not_before)
        if self.transfers.due is not None and self.me.connected:
            due.append(max(self.transfers.due, self.around.clock() + 0.05))
        if self.around.notifier.every:
            due.append(self.around.clock() + self.around.notifier.every)
        return max(0.0, min(due) - self.around.clock())

    def _feed(self, event: Event) -> None:
        """One step of the protocol, and all that follows from it."""
        before = self.me
        self.me, actions = step(self.me, event, self.around.clock())
        if self.me.epochs is not before.epochs:
            epochs = {f"epoch/{run}": str(epoch) for run, epoch in self.me.epochs.items()}
            self.hands.keep(lambda: self.around.store.note(**epochs))
        for action in actions:
            outcome = self.hands.do(action, self.me)
            if outcome is not None:
                self._feed(outcome)

    def _from_link(self, event: broker.Event) -> None:
        log = self.around.log
        match event:
            case broker.Connected():
                log.info("connected", broker=self.around.link.address, mqtt=event.protocol)
                self._status = replace(self._status, connected=True, trouble="", coordinator=False)
                self.silence.begins(self.around.clock())
                self.transfers.connected()
                self.adoption.connected()
                self._feed(LinkUp())
            case broker.Lost(reason):
                if self._status.trouble != reason:
                    log.warning(
                        f"no connection, trying on: {reason}", broker=self.around.link.address
                    )
                self._status = replace(self._status, connected=False, trouble=reason)
                self.silence.ends()
                self._feed(LinkDown())
            case broker.Refused(reason):
                if self._status.trouble != reason:
                    log.error(
                        f"the broker refuses this device: {reason}", broker=self.around.link.address
                    )
                self._status = replace(self._status, connected=False, trouble=reason)
                self._feed(LinkDown())
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
        self.account.count(len(arrival.payload))
        place = self.topics.parse(arrival.topic)
        try:
            if place is not None:
                self.adoption.heard(place, arrival.payload)
            event = None if place is None else self.decoder.take_in(place, arrival.payload)
        except StoreError as error:
            self.hands.survive(error)
            event = None  # and yet acknowledged: it is asked for anew, and too many open ones would end all delivery
        except FleetError as error:
            self.around.log.warning(f"a message that cannot be used: {error}", topic=arrival.topic)
            event = None
        if isinstance(event, Coordinator):
            self._status = replace(self._status, coordinator=event.online)
            self.silence.ends()
        if event is not None:
            self._feed(event)
        self.around.link.ack(arrival)

    def _from_worker(self, answer: Answer) -> None:
        log = self.around.log
        match answer:
            case DataSurvey():
                self.hands.survey = answer
                self._status = replace(self._status, samples=answer.samples, classes=answer.classes)
                log.info("the samples changed", samples=answer.samples, classes=len(answer.classes))
                self._feed(NewSamples())
            case Measured():
                told = outbound.accuracy(answer)
                self._status = replace(self._status, accuracy=tuple(told["accuracy"].items()))
                shown = {name: f"{value:.4f}" for name, value in told["accuracy"].items()}
                log.info("measured", round=answer.round, **shown)
                self.voice.report(answer.run, self.me.epoch, answer.round, told)
            case Notice(words):
                log.warning(words)
                self.voice.report(
                    self.me.run, self.me.epoch, self.me.trained, {"notice": words[:200]}
                )
            case TaskDone(Train() as task):
                log.info(
                    "trained",
                    round=task.round,
                    seconds=f"{answer.seconds:.2f}",
                    peak_mb=answer.peak_mb,
                )
                self.hands.trained_on(answer.device, self.me)
                self._feed(Trained(task.run, task.round, task.base_round))
            case TaskDone():
                self._feed(Evaluated())
            case TaskFailed(SurveyData(), words):
                log.error(f"the samples cannot be read: {words}")
            case TaskFailed(Evaluate() as task, words):
                log.error(f"not measured: {words}", round=task.base_round)
                self._feed(Evaluated())
            case TaskFailed(Train() as task, words, _, scope):
                log.error(words, round=task.round)
                self._feed(Failed(task.run, task.round, words, scope))
            case WorkerEnded(words):
                self._gone(words)

    def _gone(self, words: str) -> None:
        task = self.me.busy
        self.around.log.warning(words)
        if isinstance(task, Train):
            # It may have died between its commit and its word of it.
            done = self.around.store.standing(task.run)[0] >= task.round
            gone = Failed(task.run, task.round, words, Scope.AGAIN)
            self._feed(Trained(task.run, task.round, task.base_round) if done else gone)
        elif task is not None:
            self._feed(Evaluated())

    def _look_around(self) -> None:
        around, now, busy = self.around, self.around.clock(), self.me.busy is not None
        around.notifier.alive(now)
        limits = upkeep.limits(
            around.config, self.account, self.me.limits, around.now(), around.log
        )
        if limits != self.me.limits:
            self._feed(limits)
        if (
            self.hands.lost_writes
            and now >= self._ask_again_at
            and not limits.refusal.startswith("disk")
        ):
            self.hands.lost_writes = (
                False  # what could not be kept is retained by the broker, and comes again
            )
            self._ask_again_at = now + LONGEST_NAP
            around.link.subscribe(
                [(self.topics.shared_state, 1), (self.topics.own_state(around.config.id), 1)]
            )
        if self.me.connected and limits.may_send:
            with suppress(LinkBusy):  # the link is full: what is due stays due
                self.transfers.push()
        self.silence.look(now)
        self.hands.keep(lambda: self.account.note(now))
        self.idleness.look(busy, now)
        if not busy and self.samples.changed(now):
            self.hands.survey_again()
            self.adoption.samples_changed()
        self.adoption.look(may_send=self.me.connected and limits.may_send)

    def _tell(self) -> None:
        me, asked = self.me, self.me.announced
        doing = "training" if isinstance(me.busy, Train) else "measuring" if me.busy else "waiting"
        self._status = replace(
            self._status,
            run=me.run,
            epoch=me.epoch,
            round=asked.round if asked else 0,
            doing=doing,
            phase=asked.phase if asked else "",
            trained=me.trained,
            refusal=me.blocked or me.limits.refusal,
            method=asked.spec.method if asked else "",
            bytes_today=self.account.spent.bytes,
            training_pid=self.around.foreman.pid,
        )
        shown = replace(self._status, bytes_today=0)
        if shown != self._written:
            self._written = shown
            status.write(
                self.around.config.data_dir,
                self._status,
                self.around.now().astimezone().isoformat(),
            )
