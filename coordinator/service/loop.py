"""`coordinator serve`: one loop that carries messages between the link, the core and whoever asks
at the socket.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from coordinator.core import Core
from coordinator.errors import JournalError, Superseded
from coordinator.messages import Messages
from coordinator.service import status
from coordinator.service.blobs import BlobServer, is_slip
from coordinator.service.control import Request
from protofleet import wire
from protofleet.errors import BlobError, FleetError, LinkError, WireError
from protofleet.mqtt.link import events as broker
from protofleet.mqtt.link.link import Link
from protofleet.mqtt.topics import TopicParts, Topics
from protofleet.util.logs import Log
from protofleet.util.systemd import Notifier

NAP = 0.5
RETRY = 2.0  # seconds between attempts to write to a journal that cannot be written


@dataclass(frozen=True)
class ServiceDeps:
    """What a service is given of the world."""

    link: Link
    core: Core
    post: BlobServer
    voice: Messages
    topics: Topics
    log: Log
    notifier: Notifier
    requests: SimpleQueue[Request]
    boots: frozenset[str]  # of this journal's own earlier lives
    retry: bool = False
    keep_rounds: int | None = None
    once: bool = False  # end when the run is done
    clock: Callable[[], float] = time.monotonic


class Service:
    """A coordinator's life from start to stop."""

    def __init__(self, around: ServiceDeps) -> None:
        self.around = around
        self.stopping = False
        self._said_done = False
        self._trouble = ""
        self._astray = False  # the core may be ahead of the journal
        self._refused = ""
        self._retry_at = 0.0
        self._compacted = 0
        self._began = around.clock()

    def stop(self) -> None:
        """End the loop soon; may be called by a signal."""
        self.stopping = True
        self.around.link.wake()

    def run(self) -> None:
        """Until `stop`, or until another coordinator takes over."""
        around = self.around
        around.link.subscribe(around.topics.for_coordinator())
        around.post.send(around.core.recover(around.clock()))
        around.link.start()
        around.notifier.say("READY=1")
        replaced = False
        try:
            while not self.stopping:
                self._turn(around.link.poll(NAP))
        except Superseded:
            replaced = True
            raise
        finally:
            around.notifier.say("STOPPING=1")
            last = around.voice.state(around.core.standing, around.core.rules, online=False)
            around.link.stop([] if replaced else [last])  # the retained word is then the other's
            around.log.info("stopped", round=around.core.standing.number)
        if self._refused:
            raise LinkError(self._refused, "--retry keeps trying")

    def _turn(self, events: list[broker.Event]) -> None:
        around, now = self.around, self.around.clock()
        around.notifier.alive(now)
        arrivals = [event for event in events if isinstance(event, broker.Arrival)]
        for event in events:
            if not isinstance(event, broker.Arrival):
                self._link_said(event)
        said: list[broker.Publication] = []
        if now >= self._retry_at:
            try:
                if self._astray:
                    said += self._back_on_track(now)
                said += around.core.take(self._opened(arrivals), now)
                self._requests(said)
                self._upkeep()
                self._trouble = ""
            except JournalError as error:
                self._cannot_write(error, now)
        with around.link.together():
            around.post.send(said)
            # Also after trouble with the journal: without a receipt the device sends it again.
            around.link.ack(*arrivals)
        if around.once and around.core.standing.phase == "done" and not around.link.pending:
            self.stopping = True

    def _opened(self, arrivals: list[broker.Arrival]) -> list[tuple[TopicParts, bytes]]:
        """Arrivals for the core: large ones put together, everything that is not for it dealt with
        here.
        """
        found: list[tuple[TopicParts, bytes]] = []
        for arrival in arrivals:
            place = self.around.topics.parse(arrival.topic)
            if place is None:
                continue
            try:
                if place.kind == "coordinator_state":
                    self._another(arrival)
                elif place.kind == "upload_chunk":
                    whole = self.around.post.pushed(place, arrival.payload)
                    if whole is not None:
                        found.append((whole.place, whole.payload))
                elif place.kind == "chunk_request":
                    self.around.post.requested(place, arrival.payload)
                elif place.kind == "upload" and is_slip(arrival.payload):
                    whole = self.around.post.slip(place, wire.decode(arrival.payload))
                    if whole is not None:
                        found.append((whole.place, whole.payload))
                else:
                    found.append((place, arrival.payload))
            except (BlobError, OSError) as error:  # no room in the spool, or no spool
                self.around.log.warning(
                    f"a large payload cannot be taken in: {error}", topic=arrival.topic
                )
            except WireError:
                found.append((place, arrival.payload))  # the core says what is wrong with it
        return found

    def _greet(self) -> None:
        if not self._astray:  # else it is said once the core stands on the journal again
            self.around.post.send(self.around.core.greetings())

    def _another(self, arrival: broker.Arrival) -> None:
        """Two coordinators of one fleet must not both go on: the newer epoch stays, at a tie the
        greater boot id.
        """
        if not arrival.payload:
            return
        message = wire.decode(arrival.payload)
        envelope, mine = message.envelope, self.around.voice
        online, ours = (
            message.body.get("online") is True,
            envelope.boot in {mine.boot, *self.around.boots},
        )
        # Even one that is gone by now was followed by the devices: our epoch was the newest when we
        # began.
        if not ours and (envelope.epoch or 0, envelope.boot or "") > (mine.epoch, mine.boot):
            raise Superseded(
                f"another coordinator serves fleet {mine.topics.fleet} (epoch {envelope.epoch}, run {envelope.run})",
                "stop it first, or let it go on",
            )
        if online and not ours:
            self.around.log.warning(
                "another coordinator is overruled", epoch=envelope.epoch, run=envelope.run
            )
        if not arrival.retained and not (online and envelope.boot == mine.boot):
            self._greet()  # another's word, or a last will of ours, has taken the place of our word

    def _link_said(self, event: broker.Event) -> None:
        around = self.around
        match event:
            case broker.Connected(_, protocol):
                around.log.info("connected", broker=around.link.address, mqtt=protocol)
                self._greet()
            case broker.Lost(reason):
                around.log.warning(
                    f"no connection, trying on: {reason}", broker=around.link.address
                )
            case broker.Refused(reason):
                around.log.error(f"the broker refuses us: {reason}", broker=around.link.address)
                if not around.retry:
                    self._refused, self.stopping = (
                        f"{around.link.address} refuses the coordinator: {reason}",
                        True,
                    )
            case broker.Denied(topic, reason):
                around.log.warning(f"the broker does not allow {topic}: {reason}")
            case broker.Delivered():
                around.post.pump()

    def _requests(self, said: list[broker.Publication]) -> None:
        while True:
            try:
                request = self.around.requests.get_nowait()
            except Empty:
                return
            try:
                request.answer(self._asked(request.command, request.arguments, said))
            except FleetError as error:
                request.answer({"error": str(error), "code": error.code})

    def _asked(
        self, command: str, arguments: dict[str, Any], said: list[broker.Publication]
    ) -> dict[str, Any]:
        core, now = self.around.core, self.around.clock()
        if command in ("pause", "resume"):
            said += core.pause(command == "pause", now)
            return {"paused": command == "pause"}
        if command == "publish":
            said += core.greetings()
            return {"published": core.base_round}
        if command == "classes":
            answer, changed = core.classes.told(
                str(arguments.pop("what", "list")), arguments, core.base_round, core.state
            )
            said += core.classes.publications(core.base_round, core.state) if changed else []
            there = {name for name, device in core.devices.items() if device.online}
            return {
                **answer,
                "awaited": sorted(there - set(answer["summaries"])) if answer["bundle"] else [],
            }
        if command == "stop":
            self.stopping = True
            return {"stopping": True}
        if command == "backup":
            core.journal.backup(Path(str(arguments["target"])))
            return {"written": arguments["target"]}
        looks: dict[str, Callable[[], dict[str, Any]]] = {
            "status": lambda: status.status(
                core, self.around.voice, now, now - self._began, self.around.link.connected
            ),
            "agents": lambda: status.agents(core, now),
            "rounds": lambda: status.all_rounds(core, int(arguments.get("last", 20))),
            "show": lambda: status.one_round(core, int(arguments["round"])),
        }
        if command not in looks:
            raise FleetError(f"no command {command!r}")
        return looks[command]()

    def _upkeep(self) -> None:
        core, log = self.around.core, self.around.log
        if core.standing.phase == "done" and not self._said_done:
            self._said_done = True
            log.info("the run is done", rounds=core.standing.number, state=core.state.sha256)
        keep = self.around.keep_rounds
        if keep is not None and core.standing.number >= self._compacted + max(keep // 4, 1):
            self._compacted = core.standing.number
            core.journal.forget(keep)
        self.around.post.sweep()

    def _cannot_write(self, error: JournalError, now: float) -> None:
        """Nothing that was not written is true: after a while stand again where the journal says,
        and try on.
        """
        if self._trouble != error.words:
            self._trouble = error.words
            self.around.log.error(str(error))
        self._retry_at, self._astray = now + RETRY, True

    def _back_on_track(self, now: float) -> list[broker.Publication]:
        """Stand where the journal says; say all of it, and hear again what was retained, as both
        may have been lost.
        """
        core = self.around.core
        said = [*core.recover(now), *core.greetings()]
        self.around.link.subscribe(self.around.topics.for_coordinator())
        self._astray = False
        return said
