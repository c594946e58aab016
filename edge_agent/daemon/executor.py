"""The actions of the protocol, carried out: on the store, over the link, by the training
process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from edge_agent.daemon.outbound import Outbound, upload_message
from edge_agent.daemon.transfers import Transfers
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
from edge_agent.protocol.events import Event, Opened, Receipt, Requeued
from edge_agent.protocol.machine import DeviceState
from edge_agent.records import DiskFull, StoreError
from edge_agent.store import Store
from edge_agent.worker.ipc import DataSurvey, SurveyData, Work
from edge_agent.worker.supervisor import Supervisor
from protofleet.util.logs import Log
from protofleet.wire.codes import Reason, UploadStatus

T = TypeVar("T")


class ActionExecutor:
    """`survey` is what a birth tells of the samples; `version` counts how often they changed."""

    def __init__(
        self,
        store: Store,
        supervisor: Supervisor,
        transfers: Transfers,
        outbound: Outbound,
        log: Log,
        survey: DataSurvey,
    ) -> None:
        self.store = store
        self.supervisor = supervisor
        self.transfers = transfers
        self.outbound = outbound
        self.log = log
        self.survey = survey
        self.version = 0
        # What computes here. Only a training process can tell, so it is noted for the next life.
        self.device = store.noted("device") or ""
        self.lost_writes = False  # something that arrived found no room on the disk

    def do(self, action: Action, me: DeviceState) -> Event | None:
        """Do it, and say what came of it at once, if anything did."""
        match action:
            case Birth(run, epoch):
                self.outbound.birth(run, epoch, self.survey, self.device)
            case OpenRun(run, epoch):
                return self._open(run, epoch)
            case Train() | Evaluate():
                self._order(action)
            case Send():
                return self._send(action)
            case SendChunks():
                self.transfers.send_chunks(action)
            case Settle():
                self._settle(action)
            case Requeue(run, round):
                return self._requeue(run, round)
            case Report(run, round, refused):
                self.log.warning(f"not training: {refused}", round=round)
                self.outbound.report(run, me.epoch, round, {"refused": refused[:200]})
        return None

    def survey_again(self) -> None:
        """The samples changed: count them, and read them anew before the next round."""
        self.version += 1
        self.supervisor.order(SurveyData())

    def trained_on(self, device: str, me: DeviceState) -> None:
        """Tell of what computes here, if that is news."""
        if device and device != self.device:
            self.device = device
            self.keep(lambda: self.store.note(device=device))
            if me.connected:
                self.do(Birth(me.run, me.epoch), me)

    def keep(self, write: Callable[[], T]) -> T | None:
        """Write to the store, and survive a full disk: None, where nothing could be written."""
        try:
            return write()
        except StoreError as error:
            self.survive(error)
            return None

    def survive(self, error: StoreError) -> None:
        """A full disk passes; anything else is the end."""
        if not isinstance(error, DiskFull):
            raise error
        self.lost_writes = True
        self.log.error(str(error))

    def _open(self, run: str, epoch: int) -> Event:
        trained, trained_on = self.store.standing(run)
        self.log.info("joined a run", run=run, epoch=epoch, trained=trained)
        return Opened(run, trained, trained_on, tuple(self.store.waiting(run)))

    def _order(self, task: Train | Evaluate) -> None:
        if isinstance(task, Train):
            self.log.info("training", round=task.round, on=task.base[:12])
        self.supervisor.order(Work(task, self.version))

    def _send(self, send: Send) -> Event | None:
        upload = self.store.upload(send.run, send.round)
        if upload is None:
            # Only the oldest waiting upload is ever sent, so one that cannot be would hold up all
            # that follow. The device answers itself in the coordinator's place.
            words = "its bytes are no longer in the outbox"
            refused = UploadStatus.REFUSED
            return Receipt(send.run, send.epoch, send.round, refused, Reason.LOST, words)
        topics, agent = self.outbound.topics, self.outbound.config.id
        message = upload_message(topics.fleet, agent, upload, send.epoch)
        payload = self.transfers.outgoing(send.run, send.round, message)
        if payload is None:
            return None
        published = self.outbound.say(topics.upload(agent, send.round), payload)
        words = "upload sent" if published else "upload waits: the link is full"
        self.log.info(words, round=send.round, bytes=len(message))
        return None

    def _requeue(self, run: str, round: int) -> Event | None:
        if not self.keep(lambda: self.store.wait_again(run, round)):
            return None
        self.log.info("asked again for an upload that had its receipt", round=round)
        return Requeued(run, round)

    def _settle(self, settle: Settle) -> None:
        # On a full disk the receipt is lost and the upload waits again in the next life, which
        # sends it once more and hears `duplicate`.
        self.keep(
            lambda: self.store.settle(
                settle.run,
                settle.round,
                settle.status,
                settle.reason,
                settle.words,
                settle.epoch,
            )
        )
        self.transfers.settled(settle.run, settle.round)
        unwelcome = settle.status in (UploadStatus.REFUSED, UploadStatus.CONFLICT)
        log = self.log.warning if unwelcome else self.log.info
        why = {"reason": settle.reason, "because": settle.words} if settle.reason else {}
        log(f"upload {settle.status}", round=settle.round, **why)
