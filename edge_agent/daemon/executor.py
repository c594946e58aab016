"""The actions of the protocol, carried out: on the store, over the link, by the training
process.
"""

from __future__ import annotations

from collections.abc import Callable

from edge_agent.daemon.ears import Plans
from edge_agent.daemon.outbound import Outbound, upload_message
from edge_agent.daemon.transfers import Transfers
from edge_agent.protocol.events import (
    Action,
    Birth,
    Evaluate,
    Evaluated,
    Event,
    Failed,
    Opened,
    OpenRun,
    Receipt,
    Report,
    Requeue,
    Requeued,
    Send,
    SendChunks,
    Settle,
    Train,
)
from edge_agent.protocol.machine import DeviceState
from edge_agent.records import StoreError
from edge_agent.store import Store
from edge_agent.worker.ipc import DataSurvey, SurveyData, Work
from edge_agent.worker.supervisor import Supervisor
from protofleet.util.logs import Log


class ActionExecutor:
    """`seen` is what a birth tells of the samples; `version` counts how often they changed."""

    def __init__(
        self,
        store: Store,
        foreman: Supervisor,
        transfers: Transfers,
        voice: Outbound,
        log: Log,
        plans: Plans,
        seen: DataSurvey,
    ) -> None:
        self.store = store
        self.foreman = foreman
        self.transfers = transfers
        self.voice = voice
        self.log = log
        self.plans = plans
        self.seen = seen
        self.version = 0
        self.device = (
            store.noted("device") or ""
        )  # what computes here: only a training process can tell
        self.missed = False  # something that arrived found no room on the disk

    def do(self, action: Action, me: DeviceState) -> Event | None:
        """Do it, and say what came of it at once, if anything did."""
        match action:
            case Birth(run, epoch):
                self.voice.birth(run, epoch, self.seen, self.device)
            case OpenRun(run, epoch):
                return self._open(run, epoch)
            case Train() | Evaluate():
                return self._order(action, me)
            case Send():
                return self._send(action)
            case SendChunks():
                self.transfers.send_chunks(action)
            case Settle():
                self._settle(action)
            case Requeue(run, round):
                return self._again(run, round)
            case Report(run, round, refused):
                self.log.warning(f"not training: {refused}", round=round)
                self.voice.report(run, me.epoch, round, {"refused": refused[:200]})
        return None

    def look_again(self) -> None:
        """The samples changed: count them, and read them anew before the next round."""
        self.version += 1
        self.foreman.order(SurveyData())

    def trained_by(self, device: str, me: DeviceState) -> None:
        """Tell of what computes here, if that is news."""
        if device and device != self.device:
            self.device = device
            self.keep(lambda: self.store.note(device=device))
            if me.connected:
                self.do(Birth(me.run, me.epoch), me)

    def keep(self, write: Callable[[], object]) -> None:
        """Write to the store, and survive a full disk."""
        try:
            write()
        except StoreError as error:
            self.trouble(error)

    def trouble(self, error: StoreError) -> None:
        """A full disk passes; anything else is the end."""
        if error.code != "disk-full":
            raise error
        self.missed = True
        self.log.error(str(error))

    def _open(self, run: str, epoch: int) -> Event:
        trained, trained_on = self.store.standing(run)
        self.log.info("joined a run", run=run, epoch=epoch, trained=trained)
        return Opened(run, trained, trained_on, tuple(self.store.waiting(run)))

    def _order(self, task: Train | Evaluate, me: DeviceState) -> Event | None:
        plan = None if me.announced is None else self.plans.get(me.announced)
        if plan is None:
            return (
                Evaluated()
                if isinstance(task, Evaluate)
                else Failed(task.run, task.round, "no contract", "again")
            )
        if isinstance(task, Train):
            self.log.info("training", round=task.round, on=task.base[:12])
        self.foreman.order(Work(plan, task, self.version))
        return None

    def _send(self, wanted: Send) -> Event | None:
        upload = self.store.upload(wanted.run, wanted.round)
        if upload is None:
            words = "its bytes are no longer in the outbox"
            return Receipt(wanted.run, wanted.epoch, wanted.round, "refused", "lost", words)
        topics, agent = self.voice.topics, self.voice.config.id
        message = upload_message(topics.fleet, agent, upload, wanted.epoch)
        payload = self.transfers.outgoing(wanted.run, wanted.round, message)
        if payload is None:
            return None
        sent = self.voice.say(topics.upload(agent, wanted.round), payload)
        words = "upload sent" if sent else "upload waits: the link is full"
        self.log.info(words, round=wanted.round, bytes=len(message))
        return None

    def _again(self, run: str, round: int) -> Event | None:
        found: list[bool] = []
        self.keep(lambda: found.append(self.store.wait_again(run, round)))
        if found == [True]:
            self.log.info("asked again for an upload that had its receipt", round=round)
            return Requeued(run, round)
        return None

    def _settle(self, got: Settle) -> None:
        self.keep(
            lambda: self.store.settle(
                got.run, got.round, got.status, got.reason, got.words, got.epoch
            )
        )
        self.transfers.settled(got.run, got.round)
        said = self.log.warning if got.status in ("refused", "conflict") else self.log.info
        why = {"reason": got.reason, "because": got.words} if got.reason else {}
        said(f"upload {got.status}", round=got.round, **why)
