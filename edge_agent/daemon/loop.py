"""The daemon: one loop that carries events to the protocol and its actions to link, store and
training process.

It never waits for anything but its next event.
"""

# Theory of operation
#
# The rules are in `edge_agent.protocol.machine`; here is everything they must not know: sockets,
# files, clocks, processes. One thread does it all. A turn of the loop is
#
#   poll the link         -> InboundDecoder -> event -+
#   answers of training                     -> event -+-> step -> actions -> ActionExecutor
#   upkeep (hours, disk, samples, chunks)   -> event -+              ^            |
#   TimePassed                              -> event -+              +-- outcome -+
#   write `status.json`, if it changed
#
# and the poll lasts until the next moment at which something is due. The link's thread, the thread
# that listens to the training process and a signal handler do no more than end it early.
#
# What the order of things promises:
#
# - A message is acknowledged when all that follows from it is done: the store has what must not be
#   lost. A crash before that, and the broker brings it once more; to the machine a message that
#   comes twice is no news. What cannot be used is acknowledged too, as it never will be of use.
# - The exception is a full disk: a state is then acknowledged and lost. States are retained, so
#   when there is room again, subscribing anew makes the broker send them once more.
# - The outcome of an action is taken in before the next action is done. Joining a run is
#   [OpenRun, Birth]: what the store answers to the first may send uploads before the birth, and
#   each action sees the device as the last outcome left it.
# - The training process commits to the store by itself and may die at any moment. If it died
#   between its commit and its answer, only the store knows that the round is trained.
# - On the way out nothing is waited for but the farewell. Training is killed: what it committed is
#   whole, and the rest is done again with the same outcome.
#
# Two clocks: `clock` is monotonic and drives every wait; `now` is the wall's, for the owner's hours
# and the day's bytes only, as it may jump.

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from edge_agent.config import Config
from edge_agent.daemon import outbound, status, upkeep
from edge_agent.daemon.adopt import Adoption
from edge_agent.daemon.drift import DriftNews
from edge_agent.daemon.executor import ActionExecutor
from edge_agent.daemon.home import HomeNews
from edge_agent.daemon.inbound import InboundDecoder
from edge_agent.daemon.masker import Masker
from edge_agent.daemon.status import Status
from edge_agent.daemon.summing import LedgerSums
from edge_agent.daemon.transfers import Transfers
from edge_agent.daemon.watching import CameraChild
from edge_agent.protocol.actions import Action, Evaluate, Train
from edge_agent.protocol.events import (
    Announced,
    BundleReady,
    Coordinator,
    Evaluated,
    Event,
    Failed,
    LinkDown,
    LinkUp,
    NewSamples,
    OwnerLimits,
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
from edge_agent.worker.process import Start, launched
from edge_agent.worker.supervisor import Supervisor
from protofleet import wire
from protofleet.budget.noise import drawn, in_pieces
from protofleet.errors import FleetError, LinkBusy, LinkError
from protofleet.member.membership import FleetMember
from protofleet.member.renewal import Renewal
from protofleet.member.sealed_link import SealedLink
from protofleet.mqtt.link import events as broker
from protofleet.mqtt.link.link import Link
from protofleet.mqtt.topics import Topics
from protofleet.util.logs import Log
from protofleet.util.systemd import Notifier
from protofleet.wire.codes import RoundPhase, Scope

# Seconds. Hours, free disk and new samples send no event, so the loop turns at least this often.
LONGEST_POLL = 5.0
# Seconds. A chunk that a full link refuses stays due, and would spin the loop.
PUSH_PAUSE = 0.05
WORTH_A_FILE = 100_000  # bytes over the link


class NotLetIn(LinkError):
    """The broker refuses this device, and waiting will not change that."""

    code = "refused"


@dataclass(frozen=True)
class DaemonDeps:
    """What a daemon is given of the world."""

    config: Config
    link: Link | SealedLink
    store: Store
    supervisor: Supervisor
    log: Log
    notifier: Notifier
    boot: str
    retry: bool
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = datetime.now
    start: Start = launched
    member: FleetMember | None = None


class Daemon:
    """A device's life from start to stop."""

    def __init__(self, deps: DaemonDeps, rules: RetryRules, survey: DataSurvey) -> None:
        self.deps = deps
        config, store, link, log, clock = deps.config, deps.store, deps.link, deps.log, deps.clock
        self.topics = Topics(config.fleet.name)
        epochs = {run: int(epoch) for run, epoch in store.all_noted("epoch/").items()}
        self.me = DeviceState(rules, epochs=epochs)
        self.traffic = upkeep.TrafficAccount(store, lambda: deps.now().date())
        self.samples = upkeep.SampleWatch(config, clock())
        self.idle = upkeep.IdleWatch(deps.supervisor, config.limits.idle_seconds, clock())
        self.silence = upkeep.CoordinatorWatch(self.topics.fleet, log)
        self.outbound = outbound.Outbound(link, self.topics, config, deps.boot, self.traffic.count)
        self.transfers = Transfers(
            self.topics,
            config.id,
            config.data_dir / "spool",
            self.outbound,
            clock,
            wire.DEFAULT.message,
        )
        # Noise for a wide extractor takes longer than a watchdog waits on a small device.
        sampler = in_pieces(drawn, lambda: deps.notifier.alive(deps.clock()))
        only = config.trust.secure_sum
        self.masker = Masker(config.id, store, log, deps.member, only, sampler=sampler)
        sums = LedgerSums(self.masker, config.fleet.name)
        self.masker.on_ledger = sums.hears
        self.adoption = Adoption(
            config, self.outbound, self.transfers, log, clock, deps.start, sums
        )
        self.drift = DriftNews(self.adoption.file, clock)
        self.decoder = InboundDecoder(self.topics, store, self.transfers, self.masker)
        self.cameras = CameraChild(config, self.outbound.sees, link.wake, log, clock)
        self.renewal: Renewal | None = None
        if deps.member is not None:
            self.renewal = Renewal(
                deps.member, self.outbound, log, clock, lambda: deps.now().astimezone()
            )
        self.executor = ActionExecutor(
            store, deps.supervisor, self.transfers, self.outbound, log, survey, self.masker
        )
        buttons = {"contribute": self._contribute_now}
        self.home = HomeNews(config, self.outbound, store, log, clock, buttons)
        self._ask_again_at = 0.0
        self._stopping = False
        self._refused = ""
        self._spent = ""  # the run of which that was said
        self._status = Status(
            config.id,
            config.fleet.name,
            str(link.address),
            os.getpid(),
            samples=survey.samples,
            classes=survey.classes,
        )
        self._written: Status | None = None

    def stop(self) -> None:
        """End the loop soon; may be called by a signal."""
        self._stopping = True
        self.deps.link.wake()

    def run(self) -> None:
        """Until `stop`, or until the broker will not have us."""
        deps, agent = self.deps, self.deps.config.id
        deps.link.subscribe([*self.topics.for_device(agent), *self.home.filters])
        deps.link.start()
        deps.notifier.say("READY=1")
        samples = self.executor.survey.samples
        deps.log.info("started", agent=agent, broker=deps.link.address, samples=samples)
        try:
            while not self._stopping:
                for event in deps.link.poll(self._timeout()):
                    self._from_link(event)
                for answer in deps.supervisor.answers():
                    self._from_worker(answer)
                self._upkeep()
                self._feed(TimePassed())
                self._report_status()
        finally:
            self._leave()
        if self._refused:
            raise NotLetIn(self._refused, "--retry keeps trying")

    def _leave(self) -> None:
        deps = self.deps
        deps.notifier.say("STOPPING=1")
        deps.supervisor.dismiss()
        self.adoption.stop()
        self.cameras.stop()
        farewell = outbound.farewell(self.topics, deps.config.id, deps.boot)
        deps.link.stop([farewell], patience=4.0)
        self.executor.keep(lambda: self.traffic.note(deps.clock(), at_once=True))
        self._status = replace(self._status, doing="stopped", connected=False, training_pid=None)
        self._write_status()
        deps.log.info("stopped")

    def _timeout(self) -> float:
        """Seconds until something is due without an event."""
        me, now, notifier = self.me, self.deps.clock(), self.deps.notifier
        moments = [now + LONGEST_POLL, self.adoption.due(connected=me.connected), self.home.due()]
        moments.append(self.cameras.due())
        if me.delivery is not None and me.connected:
            moments.append(me.delivery.retry_at)
        if me.not_before > now:
            moments.append(me.not_before)
        ask_at = self.transfers.receiver.due
        if ask_at is not None and me.connected:
            moments.append(max(ask_at, now + PUSH_PAUSE))
        if notifier.every:
            moments.append(now + notifier.every)
        return max(0.0, min(moments) - now)

    def _feed(self, event: Event) -> None:
        """One step of the protocol, and all that follows from it."""
        actions = deque(self._step(event))
        while actions:
            outcome = self.executor.do(actions.popleft(), self.me)
            if outcome is not None:
                # Its actions come before those that are left of the step it belongs to.
                actions.extendleft(reversed(self._step(outcome)))

    def _step(self, event: Event) -> list[Action]:
        before = self.me
        self.me, actions = step(before, event, self.deps.clock())
        if self.me.epochs is not before.epochs:
            epochs = {f"epoch/{run}": str(epoch) for run, epoch in self.me.epochs.items()}
            self.executor.keep(lambda: self.deps.store.note(**epochs))
        return actions

    def _from_link(self, event: broker.Event) -> None:
        link, log = self.deps.link, self.deps.log
        match event:
            case broker.Connected():
                log.info("connected", broker=link.address, mqtt=event.protocol)
                self._status = replace(self._status, connected=True, trouble="", coordinator=False)
                self.silence.begins(self.deps.clock())
                self.transfers.receiver.connected()
                self.adoption.connected()
                self.home.connected()
                self._feed(LinkUp())
            case broker.Lost(reason):
                if self._status.trouble != reason:
                    log.warning(f"no connection, trying on: {reason}", broker=link.address)
                self.silence.ends()
                self._disconnected(reason)
            case broker.Refused(reason):
                if self._status.trouble != reason:
                    log.error(f"the broker refuses this device: {reason}", broker=link.address)
                self._disconnected(reason)
                if not self.deps.retry:
                    self._refused = f"{link.address} refuses this device: {reason}"
                    self._stopping = True
            case broker.Denied(topic, reason):
                log.warning(f"the broker does not allow {topic}: {reason}")
                # Where a device may not even say that it is there, rules are of another fleet or
                # name, and it would be denied everything for ever.
                own = topic == self.topics.state(self.deps.config.id)
                if own and broker.NOT_ALLOWED in reason.lower() and not self.deps.retry:
                    self._refused = f"{link.address} does not allow this device {topic}: {reason}"
                    self._stopping = True
            case broker.Arrival():
                self._arrived(event)
            case _:
                return

    def _disconnected(self, reason: str) -> None:
        self._status = replace(self._status, connected=False, trouble=reason)
        self._feed(LinkDown())

    def _arrived(self, arrival: broker.Arrival) -> None:
        """Take a message in; it is acknowledged once it is safe, or known to be of no use."""
        self.traffic.count(len(arrival.payload))
        event = self._decoded(arrival)
        if isinstance(event, Coordinator):
            self._status = replace(self._status, coordinator=event.online)
            self.silence.ends()
            self.drift.again()
        if event is not None:
            self._feed(event)
        if isinstance(event, Announced):
            self._say_whether_spent(event)
        self.deps.link.ack(arrival)

    def _say_whether_spent(self, event: Announced) -> None:
        """Once a run, that nothing more is asked of this device."""
        over = event.spec.budget and event.phase == RoundPhase.DONE and event.run == self.me.run
        if over and self._spent != event.run:
            self._spent = event.run
            self.deps.log.info("the fleet's budget is spent: nothing more is sent of its samples")

    def _decoded(self, arrival: broker.Arrival) -> Event | None:
        place = self.topics.parse(arrival.topic)
        if place is None:
            return None
        if place.kind == "press":
            (button,) = place.rest
            self.home.press(button, arrival.payload, retained=arrival.retained)
            return None
        try:
            if place.kind == "certificate" and self.renewal is not None:
                self.renewal.take_in(arrival.payload)
            self.adoption.take_in(place, arrival.payload)
            return self.decoder.take_in(place, arrival.payload)
        except StoreError as error:
            # On a full disk it is acknowledged all the same: it is asked for anew, and too many
            # messages that are not would end all delivery.
            self.executor.survive(error)
        except FleetError as error:
            self.deps.log.warning(f"a message that cannot be used: {error}", topic=arrival.topic)
        return None

    def _from_worker(self, answer: Answer) -> None:
        log = self.deps.log
        match answer:
            case DataSurvey():
                self.executor.survey = answer
                self._status = replace(self._status, samples=answer.samples, classes=answer.classes)
                log.info("the samples changed", samples=answer.samples, classes=len(answer.classes))
                if not self.me.trained:
                    # Where nothing was trained, nothing may ever be: a fleet that only adds up
                    # contributions has no use for this process until samples change again.
                    self.deps.supervisor.dismiss()
                self._feed(NewSamples())
            case Measured():
                self._measured(answer)
            case Notice(words):
                log.warning(words)
                if not self.me.budget:
                    self._report({"notice": words[:200]})
            case TaskDone(Train() as task):
                seconds, peak = f"{answer.seconds:.2f}", answer.peak_mb
                log.info("trained", round=task.round, seconds=seconds, peak_mb=peak)
                trainings = self._status.trainings.plus(answer.seconds)
                self._status = replace(self._status, trainings=trainings)
                self.executor.trained_on(answer.device, self.me)
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
                self._worker_ended(words)

    def _measured(self, answer: Measured) -> None:
        body = outbound.accuracy(answer)
        accuracy = body["accuracy"]
        self._status = replace(self._status, accuracy=tuple(accuracy.items()))
        shown = {name: f"{share:.4f}" for name, share in accuracy.items()}
        self.deps.log.info("measured", round=answer.round, **shown)
        self.outbound.report(answer.run, self.me.epoch, answer.round, body)

    def _report(self, body: Mapping[str, Any]) -> None:
        self.outbound.report(self.me.run, self.me.epoch, self.me.trained, body)

    def _worker_ended(self, words: str) -> None:
        task = self.me.busy
        self.deps.log.warning(words)
        if isinstance(task, Evaluate):
            self._feed(Evaluated())
        elif task is not None:
            # It may have died between its commit and its word of it.
            if self.deps.store.standing(task.run)[0] >= task.round:
                self._feed(Trained(task.run, task.round, task.base_round))
            else:
                self._feed(Failed(task.run, task.round, words, Scope.AGAIN))

    def _upkeep(self) -> None:
        """All that changes without an event."""
        deps, now, busy = self.deps, self.deps.clock(), self.me.busy is not None
        deps.notifier.alive(now)
        limits = upkeep.limits(deps.config, self.traffic, self.me.limits, deps.now(), deps.log)
        if limits != self.me.limits:
            self._feed(limits)
        self._ask_again(limits, now)
        may_send = self.me.connected and limits.may_send
        if may_send:
            with suppress(LinkBusy):  # the link is full: what is due stays due
                self.transfers.push()
        self.silence.look(now)
        if self.renewal is not None:
            self.renewal.look(connected=self.me.connected)
        self.executor.keep(lambda: self.traffic.note(now))
        self.idle.look(busy, now)
        if not busy and self.samples.changed(now):
            self.executor.survey_again()
            self.adoption.samples_changed()
        self.adoption.look(may_send=may_send)
        if self.adoption.ready != self.me.extractor:
            self._feed(BundleReady(self.adoption.ready))
        # Where what leaves is counted, answers to samples are no less telling than samples' sums.
        self.cameras.look(connected=may_send and self.me.budget is False)
        self.adoption.report(self.me.run, self.me.epoch, may_send=may_send)
        if may_send and self.me.run and self.me.budget is False:
            self.drift.look(self._report)
        counted = self.me.budget is False
        self.executor.keep(lambda: self.home.look(self._status, may_send=may_send, counted=counted))

    def _contribute_now(self) -> str:
        """Somebody pressed the button: what there is to learn from is looked at at once."""
        if self.me.busy is not None:
            return "it is at it already"
        self.executor.survey_again()
        self.adoption.samples_changed()
        return "its samples are looked at again"

    def _ask_again(self, limits: OwnerLimits, now: float) -> None:
        """Have the broker send the retained states once more, if one found no room on the disk and
        there is room now.
        """
        if not self.executor.lost_writes or limits.disk_full or now < self._ask_again_at:
            return
        self.executor.lost_writes = False
        self._ask_again_at = now + LONGEST_POLL
        own = self.topics.own_state(self.deps.config.id)
        self.deps.link.subscribe([(self.topics.shared_state, 1), (own, 1)])

    def _report_status(self) -> None:
        me, announced = self.me, self.me.announced
        doing = "training" if isinstance(me.busy, Train) else "measuring" if me.busy else "waiting"
        bundle, newest = self.adoption.bundles
        self._status = replace(
            self._status,
            run=me.run,
            epoch=me.epoch,
            round=announced.round if announced else 0,
            doing=doing,
            phase=announced.phase if announced else "",
            trained=me.trained,
            refusal=me.blocked or me.limits.refusal,
            method=announced.spec.method if announced else "",
            ledger=self.adoption.deliveries.standing,
            bytes_today=self.traffic.spent.bytes,
            bytes_total=self.traffic.total,
            bundle=bundle,
            newest=newest,
            training_pid=self.deps.supervisor.pid,
        )
        # Every message changes the day's bytes: few of them are not worth a file.
        few = {n: getattr(self._status, n) // WORTH_A_FILE for n in ("bytes_today", "bytes_total")}
        shown = replace(self._status, **few)
        if shown != self._written:
            self._written = shown
            self._write_status()

    def _write_status(self) -> None:
        when = self.deps.now().astimezone().isoformat()
        status.write(self.deps.config.data_dir, self._status, when)
