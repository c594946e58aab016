"""The actions of the protocol, carried out: on the store, over the link, by the training
process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from edge_agent.daemon.masker import Masker
from edge_agent.daemon.outbound import Outbound, upload_message
from edge_agent.daemon.transfers import Transfers
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
from edge_agent.protocol.events import Event, Masked, Opened, Receipt, Requeued
from edge_agent.protocol.machine import DeviceState
from edge_agent.records import DiskFull, OutboxEntry, StoreError
from edge_agent.store import Store
from edge_agent.worker.ipc import DataSurvey, SurveyData, Work
from edge_agent.worker.supervisor import Supervisor
from protofleet.errors import FleetError
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
        masker: Masker,
    ) -> None:
        self.store = store
        self.supervisor = supervisor
        self.transfers = transfers
        self.outbound = outbound
        self.log = log
        self.survey = survey
        self.masker = masker
        self.version = 0
        # What computes here. Only a training process can tell, so it is noted for the next life.
        self.device = store.noted("device") or ""
        self.lost_writes = False  # something that arrived found no room on the disk

    def do(self, action: Action, me: DeviceState) -> Event | None:
        """Do it, and say what came of it at once, if anything did."""
        match action:
            case Birth(run, epoch):
                # How much there is is not said before it is known that it may be.
                survey = self.survey if me.budget is False else None
                self.outbound.birth(run, epoch, survey, self.device)
            case OpenRun(run, epoch):
                return self._open(run, epoch)
            case Train() | Evaluate():
                self._order(action)
            case Send():
                return self._send(action)
            case SendChunks():
                self.transfers.send_chunks(action)
            case Mask(run, round, word):
                # On a full disk nothing is said: the word is retained, and comes again.
                if self.keep(lambda: self.masker.hears(run, round, word)):
                    return Masked(run, round)
            case Settle():
                self._settle(action)
            case Requeue(run, round):
                return self._requeue(run, round, me)
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
            self.masker.begin(task.spec)
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
        letter: bytes | None = None
        if self.masker.is_masked(send.run):
            try:
                letter = self.masker.letter(upload)
            except FleetError as error:
                return self._unsaid(upload, send, error)
            if letter == b"":
                return None  # the seat was left: the round ends without this device
        message = upload_message(topics.fleet, agent, upload, send.epoch, letter)
        payload = self.transfers.outgoing(send.run, send.round, message)
        if payload is None:
            return None
        published = self.outbound.say(topics.upload(agent, send.round), payload)
        what = "upload" if letter is None else "letter of a masked sum"
        words = f"{what} sent" if published else f"{what} waits: the link is full"
        self.log.info(words, round=send.round, bytes=len(message))
        return None

    def _unsaid(self, upload: OutboxEntry, send: Send, error: FleetError) -> Event:
        """It cannot be masked: the others need not wait, and nothing of it is sent."""
        words = f"its sums cannot be masked: {error}"
        self.outbound.report(upload.run, send.epoch, upload.round, {"refused": words[:200]})
        refused = UploadStatus.REFUSED
        return Receipt(upload.run, send.epoch, upload.round, refused, error.code, words)

    def _requeue(self, run: str, round: int, me: DeviceState) -> Event | None:
        if self.masker.is_masked(run) and self.store.seat(run, round) is not None:
            words = "its sums were told to a group that is no more, and to no other"
            self.log.warning(f"asked again: {words}", round=round)
            self.outbound.report(run, me.epoch, round, {"refused": words})
            return None
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
