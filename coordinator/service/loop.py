"""`coordinator serve`: one loop that carries messages between the link, the core and whoever asks
at the socket.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from coordinator.core import Core
from coordinator.errors import JournalError, Superseded
from coordinator.ingestion.crew import IngesterCrew
from coordinator.ingestion.words import ONE_NAME, HeardBatch
from coordinator.messages import Messages
from coordinator.relay.site import SiteRelay
from coordinator.rollouts import summary
from coordinator.service import glance, status
from coordinator.service.blobs import BlobServer, is_descriptor
from coordinator.service.control import Request
from coordinator.service.doorkeeper import Doorkeeper
from coordinator.service.home import FleetHome
from coordinator.service.lookout import Lookout
from coordinator.service.seals import Seals
from coordinator.service.vitals import vitals
from protofleet import wire
from protofleet.errors import (
    BlobError,
    FleetError,
    LinkError,
    TrustError,
    UsageError,
    WireError,
)
from protofleet.mqtt.link import events as broker
from protofleet.mqtt.link.link import Link
from protofleet.mqtt.topics import Proof, TopicParts, Topics
from protofleet.util.logs import Log
from protofleet.util.systemd import Notifier
from protofleet.wire import epochs

# Theory of operation
#
# One thread, one loop. A turn takes what the link has, at most one group of arrivals, and does with
# it in this order:
#
#   1. the link's own events: a new connection is greeted with everything that is retained
#   2. arrivals that are not for the core: chunks and descriptors of blobs, requests for chunks,
#      another coordinator's word
#   3. `core.take` with the rest, also if there is none, as time passes for it, too
#   4. requests of operators that change something or read the journal; of a site, what the fleet
#      above said, and what is said there (`coordinator.relay.site`); upkeep
#   5. what all of these said goes out, and then the arrivals are acknowledged, in one write
#
# Who asks how things stand waits for no turn: a fusion may take many seconds. `look` answers in the
# thread of whoever asks, from values that the loop replaces and never changes, or from what is
# committed (`coordinator.service.glance`).
#
# Acknowledged last: the broker delivers again what was not, so a crash before it costs a repetition
# that the core answers as it did, or takes in for the first time.
#
# A journal that cannot be written (a full disk) is no end. The turn's arrivals are acknowledged all
# the same, and have no receipt: their devices send them again, while an open acknowledgement would
# stop all delivery, births and wills too. From then on the core may be ahead of the journal
# (`_astray`), so it is not asked anything for RETRY seconds; then it stands again where the journal
# says, everything retained is said anew, and topics are subscribed to again, because brokers answer
# that with what they retain: births that came in between.
#
# Another coordinator. What it says of itself arrives here as our own word does, from the same
# topic. The higher (epoch, boot id) goes on and the other raises `Superseded`; its last words are
# then not published, as the retained word is the other's. A lower one that is overruled may have
# replaced our word, or a will of our own earlier connection has: then ours is said again. An epoch
# so high that nobody can have it (`protofleet.wire.epochs`) is overruled like a lower one. All is
# said again once in REPLY seconds at most, however often another speaks.

NAP = 0.5  # seconds at most between turns: deadlines are met to within it
REPLY = 1.0  # seconds between answers to another coordinator
RETRY = 2.0  # seconds between attempts to write to a journal that cannot be written

LOOKS = ("", "status")  # at a rollout, for which nobody has to wait

Arrivals = list[tuple[TopicParts, bytes]]
Answer = tuple[dict[str, Any], list[broker.Publication]]


@dataclass(frozen=True)
class ServiceDeps:
    """What a service is given of the world."""

    link: Link
    core: Core
    blobs: BlobServer
    messages: Messages
    topics: Topics
    log: Log
    notifier: Notifier
    requests: SimpleQueue[Request]
    boots: frozenset[str]  # of this journal's own earlier lives
    lookout: Lookout
    doorkeeper: Doorkeeper | None = None  # of a fleet by invitation
    seals: Seals | None = None  # where signatures mean anything
    home: FleetHome | None = None
    retry: bool = False
    keep_rounds: int | None = None
    once: bool = False  # end when the run is done
    relay: SiteRelay | None = None  # of a site, to the fleet above
    crew: IngesterCrew | None = None  # processes that take uploads in beside this one
    clock: Callable[[], float] = time.monotonic


class Service:
    """A coordinator's life from start to stop."""

    def __init__(self, deps: ServiceDeps) -> None:
        self.deps = deps
        self.stopping = False
        self._done_logged = False
        self._trouble = ""
        self._astray = False  # the core may be ahead of the journal
        self._refused = ""
        self._retry_at = 0.0
        self._reply_due, self._reply_at = False, -math.inf
        self._compacted = 0
        self._traffic: dict[str, int] = {}  # bytes that came from devices
        self._began = deps.clock()
        self._alone = deps.crew is None  # in taking uploads in

    def stop(self) -> None:
        """End the loop soon; may be called by a signal."""
        self.stopping = True
        self.deps.link.wake()

    def look(self, request: Request) -> dict[str, Any] | None:
        """The answer to a request that need not wait for the loop; called by other threads."""
        try:
            if request.command == "rollout" and request.arguments.get("what", "") in LOOKS:
                return summary.status(self.deps.core.rollouts, self.deps.clock())
            return self._look(request.command, request.arguments)
        except FleetError as error:
            return {"error": str(error), "code": error.code}
        except (KeyError, TypeError, ValueError) as error:
            return _misunderstood(request.command, error)

    def _look(self, command: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        deps, now = self.deps, self.deps.clock()
        match command:
            case "status":
                return self._status()
            case "agents":
                return status.agents(deps.core, now, self._traffic)
            case "members":
                return {"members": [] if deps.doorkeeper is None else deps.doorkeeper.members()}
            case "classes" if arguments.get("what", "list") == "list":
                return glance.classes(deps.core)
            case "stop":
                self.stop()
                return {"stopping": True}
        return glance.read(deps.core, command, arguments) if command in glance.READS else None

    def _status(self) -> dict[str, Any]:
        deps, now = self.deps, self.deps.clock()
        uptime, dropped = now - self._began, self._dropped()
        connected, alerts = deps.link.connected, deps.lookout.documents
        document = status.status(deps.core, deps.messages, now, uptime, connected, dropped, alerts)
        queues = {"outgoing": deps.link.pending, "requests": deps.requests.qsize()}
        site = {} if deps.relay is None else {"site": deps.relay.document}
        crew = {} if deps.crew is None else {"ingesters": deps.crew.pids}
        return {**document, **site, **crew, "vitals": vitals(deps.core, queues)}

    def _dropped(self) -> dict[str, int]:
        """What devices said too often, by kind."""
        seals = self.deps.seals
        untrusted = 0 if seals is None else sum(seals.refused.values())
        dropped = {**self.deps.core.allowance.dropped, **self.deps.blobs.allowance.dropped}
        return {**dropped, **({"untrusted": untrusted} if untrusted else {})}

    def run(self) -> None:
        """Until `stop`, or until another coordinator takes over."""
        deps, core = self.deps, self.deps.core
        if deps.crew is not None:
            deps.crew.tell(core.standing)
            deps.crew.settle()
            self._look_at(deps.crew)
        deps.link.subscribe(self._filters())
        deps.blobs.send(core.recover(deps.clock()))
        deps.link.start()
        if deps.relay is not None:
            deps.relay.recover()
            deps.relay.start()
        deps.notifier.say("READY=1")
        replaced = False
        try:
            while not self.stopping:
                self._turn(deps.link.poll(NAP))
        except Superseded:
            replaced = True
            raise
        finally:
            deps.notifier.say("STOPPING=1")
            if deps.crew is not None:
                deps.crew.stop()
            if deps.relay is not None:
                deps.relay.stop()
            last = deps.messages.state(core.run_state, core.rules, online=False)
            last = last._replace(payload=deps.blobs.seal(last.topic, last.payload))
            deps.link.stop([] if replaced else [last])  # the retained word is then the other's
            with suppress(JournalError):  # what it loses by that is time
                core.keeper.keep()
            deps.log.info("stopped", round=core.run_state.number)
        if self._refused:
            raise LinkError(self._refused, "--retry keeps trying")

    def _filters(self) -> list[tuple[str, int]]:
        topics = self.deps.topics
        office = [] if self.deps.doorkeeper is None else topics.for_office()
        return [*topics.for_coordinator(uploads=self._alone), *office]

    def _turn(self, events: list[broker.Event]) -> None:
        deps, now = self.deps, self.deps.clock()
        deps.notifier.alive(now)
        arrivals = [event for event in events if isinstance(event, broker.Arrival)]
        for event in events:
            if not isinstance(event, broker.Arrival):
                self._handle_link(event)
        publications: list[broker.Publication] = []
        batches = [] if deps.crew is None else self._batches(deps.crew)
        if now >= self._retry_at:
            try:
                if self._astray:
                    publications += self._back_on_track(now)
                handed = self._for_core([*arrivals, *_handed_on(batches)])
                publications += deps.core.take(handed, now, batches)
                if deps.crew is not None:  # before any device hears of a round
                    deps.crew.tell(deps.core.standing)
                publications += self._answer_requests()
                if deps.relay is not None:
                    publications += deps.relay.look(now)
                self._upkeep()
                self._trouble = ""
            except JournalError as error:
                self._cannot_write(error, now)
        with deps.link.together():
            if self._reply_due and now >= self._reply_at:
                self._reply_due, self._reply_at = False, now + REPLY
                self._greet()
            deps.blobs.send(publications)
            deps.link.ack(*arrivals)
        if deps.crew is not None:
            deps.crew.over(batches)
        if deps.once and deps.core.run_state.phase == "done" and not deps.link.pending:
            self.stopping = True

    def _batches(self, crew: IngesterCrew) -> list[HeardBatch]:
        """What ingesters took in."""
        batches = crew.heard()
        self._look_at(crew)
        for row in (row for heard in batches for row in heard.batch.rows):
            if row.agent in self.deps.core.devices:
                size = self._traffic.get(row.agent, 0) + row.span.length
                self._traffic[row.agent] = size
        return batches

    def _look_at(self, crew: IngesterCrew) -> None:
        if crew.refused and not self._alone:
            self._take_in_alone(f"the broker deals no uploads out: {crew.refused}")

    def _take_in_alone(self, why: str) -> None:
        """Without ingesters, from now on."""
        assert self.deps.crew is not None  # else it is alone from the start
        self._alone = True
        self.deps.log.warning(f"one process takes uploads in: {why}")
        self.deps.crew.stop()
        self.deps.link.subscribe(self.deps.topics.for_uploads())

    def _for_core(self, arrivals: list[broker.Arrival]) -> Arrivals:
        """Arrivals for the core: large ones put together, everything that is not for it dealt with
        here.
        """
        opened: Arrivals = []
        carried: set[str] = set()  # whose chunks, or requests for them, are among these
        for arrival in arrivals:
            topic = self.deps.topics.parse(arrival.topic)
            if topic is None:  # one that means nothing
                self.deps.core.allowance.count("topic")
                continue
            if topic.agent is not None and topic.agent in self.deps.core.devices:
                size = self._traffic.get(topic.agent, 0) + len(arrival.payload)
                self._traffic[topic.agent] = size
            try:
                opened += self._opened(*self._unsealed(topic, arrival), carried)
            except TrustError as error:
                self._untrusted(topic, arrival, error)
            except (BlobError, OSError) as error:  # no room in the store, or no store
                reason = error.__cause__ or error  # the system's own words name the file
                self.deps.log.warning(
                    f"a large payload cannot be taken in: {reason}", topic=arrival.topic
                )
            except WireError:
                opened.append((topic, arrival.payload))  # the core says what is wrong with it
        if carried:
            self.deps.core.heard(carried, self.deps.clock())
        return opened

    def _unsealed(
        self, topic: TopicParts, arrival: broker.Arrival
    ) -> tuple[TopicParts, broker.Arrival]:
        """What may be believed, without its signature; `TrustError` if it may not."""
        if self.deps.seals is None:
            return topic, arrival
        topic, message = self.deps.seals.open(topic, arrival.topic, arrival.payload)
        return topic, arrival._replace(payload=message)

    def _untrusted(self, topic: TopicParts, arrival: broker.Arrival, error: TrustError) -> None:
        if self.deps.seals is not None:
            self.deps.seals.refuse(arrival.topic, error)
        # What anybody wrote there took the place of our retained word.
        self._reply_due |= topic.kind == "coordinator_state"

    def _opened(self, topic: TopicParts, arrival: broker.Arrival, carried: set[str]) -> Arrivals:
        """What of an arrival is for the core."""
        deps, payload = self.deps, arrival.payload
        blob = None
        match topic.kind:
            case "coordinator_state":
                self._another_spoke(arrival)
            case "upload_chunk":
                carried.add(str(topic.agent))
                blob = deps.blobs.chunk(topic, payload)
            case "chunk_request":
                carried.add(str(topic.agent))
                deps.blobs.requested(topic, payload)
            case "ask" | "renewal":
                if deps.doorkeeper is not None:
                    deps.blobs.send(deps.doorkeeper.take(topic, payload))
            case "upload" if is_descriptor(payload):
                descriptor = wire.decode(payload)
                if topic.proof is not None:  # a large upload is proved by what announces it
                    signature, digest = topic.proof.signature, str(descriptor.body.get("digest"))
                    topic = topic._replace(proof=Proof(signature + payload, digest))
                blob = deps.blobs.announced(topic, descriptor)
            case _:
                return [(topic, payload)]
        return [] if blob is None else [(blob.parts, blob.payload)]

    def _greet(self) -> None:
        if not self._astray:  # else it is said once the core stands on the journal again
            doorkeeper = self.deps.doorkeeper
            of_members = [] if doorkeeper is None else doorkeeper.greetings()
            try:
                self.deps.blobs.send([*of_members, *self.deps.core.greetings()])
            except JournalError as error:  # it is on a server that does not answer
                self._cannot_write(error, self.deps.clock())

    def _another_spoke(self, arrival: broker.Arrival) -> None:
        """Two coordinators of one fleet must not both go on: the newer epoch stays, at a tie the
        greater boot id.
        """
        if not arrival.payload:
            return
        message = wire.decode(arrival.payload)
        envelope, mine = message.envelope, self.deps.messages
        online = message.body.get("online") is True
        ours = envelope.boot in {mine.boot, *self.deps.boots}
        # Even one that is gone by now was followed by the devices: our epoch was the newest when we
        # began.
        epoch = envelope.epoch or 0
        credible = epochs.is_credible(epoch, mine.epoch)
        if not ours and credible and (epoch, envelope.boot or "") > (mine.epoch, mine.boot):
            raise Superseded(
                f"another coordinator serves fleet {mine.topics.fleet} "
                f"(epoch {envelope.epoch}, run {envelope.run})",
                "stop it first, or let it go on",
            )
        if online and not ours:
            self.deps.log.warning(
                "another coordinator is overruled", epoch=envelope.epoch, run=envelope.run
            )
        if not arrival.retained and not (online and envelope.boot == mine.boot):
            # Another's word, or a last will of ours, has taken the place of our word.
            self._reply_due = True

    def _handle_link(self, event: broker.Event) -> None:
        deps = self.deps
        match event:
            case broker.Connected(_, protocol):
                deps.log.info("connected", broker=deps.link.address, mqtt=protocol)
                if deps.home is not None:
                    deps.home.connected()
                self._greet()
            case broker.Lost(reason) if broker.is_taken_over(reason) and not self._alone:
                self._take_in_alone(f"the broker deals no uploads out: {ONE_NAME}")
            case broker.Lost(reason):
                deps.log.warning(f"no connection, trying on: {reason}", broker=deps.link.address)
            case broker.Refused(reason):
                deps.log.error(f"the broker refuses us: {reason}", broker=deps.link.address)
                if not deps.retry:
                    self._refused, self.stopping = (
                        f"{deps.link.address} refuses the coordinator: {reason}",
                        True,
                    )
            case broker.Denied(topic, reason):
                deps.log.warning(f"the broker does not allow {topic}: {reason}")
                # Of all topics this one: the rules are another fleet's, and will deny all others.
                own = topic == deps.topics.coordinator_state
                if own and broker.NOT_ALLOWED in reason.lower() and not deps.retry:
                    self._refused = f"{deps.link.address} does not allow {topic}: {reason}"
                    self.stopping = True
            case broker.Delivered():
                deps.blobs.pump()

    def _answer_requests(self) -> list[broker.Publication]:
        publications: list[broker.Publication] = []
        while True:
            try:
                request = self.deps.requests.get_nowait()
            except Empty:
                return publications
            try:
                answer, more = self._execute(request.command, request.arguments)
            except FleetError as error:
                answer, more = {"error": str(error), "code": error.code}, []
            except (KeyError, TypeError, ValueError) as error:
                answer, more = _misunderstood(request.command, error), []
            request.answer(answer)
            publications += more

    def _execute(self, command: str, arguments: dict[str, Any]) -> Answer:
        """An operator's command: the answer, and what the fleet is told by it."""
        core, now = self.deps.core, self.deps.clock()
        match command:
            case "pause" | "resume":
                paused = command == "pause"
                return {"paused": paused}, core.pause(paused, now)
            case "publish":
                return {"published": core.base_round}, core.greetings()
            case "classes" | "rollout":
                carry = self._classes if command == "classes" else self._rollout
                return carry(arguments)
            case "forget":
                agent = str(arguments["agent"])
                forgotten, more = core.forget(agent, now)
                self._traffic.pop(agent, None)
                if self.deps.home is not None:
                    self.deps.home.forget(agent)
                return vars(forgotten), more
            case "revoke":
                return self._revoke(str(arguments["agent"])), []
            case "backup":
                core.journal.backup(str(arguments["target"]))
                return {"written": arguments["target"]}, []
        raise FleetError(f"no command {command!r}")

    def _revoke(self, agent: str) -> dict[str, Any]:
        doorkeeper = self.deps.doorkeeper
        if doorkeeper is None:
            words = "this fleet does not go by invitation: whoever reaches the broker is in it"
            raise UsageError(words, "`coordinator invite NAME` begins one by invitation")
        doorkeeper.revoke(agent)
        journal = self.deps.core.journal
        with journal.commit():
            journal.add_event("revoked", agent=agent)
        return {"revoked": agent}

    def _rollout(self, arguments: dict[str, Any]) -> Answer:
        core = self.deps.core
        command = str(arguments.pop("what", "status"))
        if command == "list":
            return summary.every(core.journal.rollouts), []
        if command == "history":
            number = arguments.get("number")
            tables, last = core.journal.rollouts, int(arguments.get("last", 1000))
            return summary.history(tables, None if number is None else int(number), last), []
        return core.rollout(command, arguments, self.deps.clock())

    def _classes(self, arguments: dict[str, Any]) -> Answer:
        core = self.deps.core
        command = str(arguments.pop("what", "list"))
        answer, more = core.classes(command, arguments, self.deps.clock())
        return glance.with_awaited(core, answer), more

    def _upkeep(self) -> None:
        core, log = self.deps.core, self.deps.log
        if core.run_state.phase == "done" and not self._done_logged:
            self._done_logged = True
            log.info("the run is done", rounds=core.run_state.number, state=core.state.sha256)
        keep = self.deps.keep_rounds
        if keep is not None and core.run_state.number >= self._compacted + max(keep // 4, 1):
            self._compacted = core.run_state.number
            core.journal.forget(keep)
        home, doorkeeper = self.deps.home, self.deps.doorkeeper
        if doorkeeper is not None:
            self.deps.blobs.send(doorkeeper.look())
            if home is not None:
                home.turned_away(doorkeeper.revoked)
        if home is not None and self.deps.link.connected:
            home.look(self._status)
        self.deps.lookout.look(self.deps.clock(), connected=self.deps.link.connected)
        self.deps.blobs.sweep()

    def _cannot_write(self, error: JournalError, now: float) -> None:
        """Nothing that was not written is true: after a while stand again where the journal says,
        and try on.
        """
        if self._trouble != error.words:
            self._trouble = error.words
            self.deps.log.error(str(error))
        self._retry_at, self._astray = now + RETRY, True

    def _back_on_track(self, now: float) -> list[broker.Publication]:
        """Stand where the journal says; say all of it, and hear again what was retained, as both
        may have been lost.
        """
        core = self.deps.core
        publications = [*core.recover(now), *core.greetings()]
        self.deps.link.subscribe(self._filters())
        self._astray = False
        return publications


def _handed_on(batches: Sequence[HeardBatch]) -> list[broker.Arrival]:
    """What ingesters leave to the core, as it came."""
    others = (other for heard in batches for other in heard.batch.others)
    return [broker.Arrival(topic, payload, 1, False, None) for topic, payload in others]


def _misunderstood(command: str, error: Exception) -> dict[str, Any]:
    """The answer to another version's command."""
    words = f"{command}: its arguments are not understood here: {error!r}"
    return {"error": words, "code": "arguments"}
