"""What a device says: births, uploads and reports, each under the envelope of the run it is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import protofleet
from edge_agent.config import Config
from edge_agent.records import OutboxEntry
from edge_agent.worker.ipc import DataSurvey, Measured
from protofleet import wire
from protofleet.errors import LinkBusy
from protofleet.exchange.rollouts import RolloutReport, write_report
from protofleet.member.sealed_link import SealedLink
from protofleet.mqtt.link.events import Publication, Ticket, Will
from protofleet.mqtt.link.link import Link
from protofleet.mqtt.topics import Topics


def will(topics: Topics, agent: str, boot: str) -> Will:
    """What the broker says for a device that it has lost."""
    return Will(
        topics.state(agent), _birth(topics, agent, boot, {"online": False, "reason": "lost"})
    )


def farewell(topics: Topics, agent: str, boot: str) -> Publication:
    """What a device says that leaves in good order."""
    return Publication(
        topics.state(agent),
        _birth(topics, agent, boot, {"online": False, "reason": "left"}),
        retain=True,
    )


def upload_message(
    fleet: str, agent: str, upload: OutboxEntry, epoch: int, letter: bytes | None = None
) -> bytes:
    """An upload as it goes out, or a letter of a masked sum in its place: the same bytes each time,
    as long as the epoch is the same.
    """
    # `boot` and `seq` are those of the training that made it, not of the daemon that sends it: a
    # repetition is known by its bytes, and large ones are asked for in chunks by their digest.
    envelope = wire.Envelope(
        t="upload" if letter is None else "letter",
        fleet=fleet,
        run=upload.run,
        epoch=epoch,
        agent=agent,
        boot=upload.boot,
        seq=upload.seq,
        round=upload.round,
        method=upload.method,
        base=upload.base,
    )
    return wire.enclose(envelope, upload.body if letter is None else letter)


@dataclass
class Outbound:
    """Publishes for a device; `count` is called with the size of every payload that goes out."""

    link: Link | SealedLink
    topics: Topics
    config: Config
    boot: str
    count: Callable[[int], None]
    seq: int = 0

    def sees(self, place: str, answer: bytes) -> Ticket:
        """What a camera shows, as plain JSON; under a signature where this device is a member."""
        topic = self.topics.sees(self.config.id, place)
        self.count(len(answer))
        return self.link.publish(topic, answer, retain=self.config.camera.retain, tell=True)

    def birth(self, run: str, epoch: int, survey: DataSurvey | None, device: str) -> None:
        """Here we are, and this is what we have, where that may be told; what computes is known
        once something was trained.
        """
        body = {
            "online": True,
            "version": protofleet.__version__,
            "wire": [wire.VERSION],
            **({} if survey is None else {"classes": list(survey.classes)}),
            "backbone": self.config.data.backbone,
            **({} if survey is None else {"samples": survey.samples}),
            **({"device": device} if device else {}),
        }
        agent = self.config.id
        message = _birth(self.topics, agent, self.boot, body, run, epoch, self._next())
        self.say(self.topics.state(agent), message, retain=True)

    def report(self, run: str, epoch: int, round: int, body: Mapping[str, Any]) -> None:
        """Accuracy, or why a round is not trained. Nobody waits for it."""
        agent = self.config.id
        envelope = wire.Envelope(
            t="report",
            fleet=self.topics.fleet,
            run=run,
            epoch=epoch,
            agent=agent,
            boot=self.boot,
            seq=self._next(),
            round=round,
        )
        self.say(self.topics.report(agent), wire.encode(envelope, {"round": round, **body}), qos=0)

    def reported(self, report: RolloutReport, run: str, epoch: int) -> bool:
        """What this device runs; retained, for whoever listens later."""
        agent = self.config.id
        envelope = wire.Envelope(
            t="reported",
            fleet=self.topics.fleet,
            run=run or None,
            epoch=max(epoch, 0),
            agent=agent,
            boot=self.boot,
            seq=self._next(),
        )
        topic = self.topics.reported(agent)
        return self.say(topic, write_report(report, envelope), retain=True)

    def say(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> bool:
        """Whether the link took it; what is refused here is said again later by whoever keeps
        it.
        """
        try:
            self.publish(topic, payload, qos=qos, retain=retain)
        except LinkBusy:
            return False
        return True

    def publish(
        self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False, tell: bool = False
    ) -> Ticket:
        """The link's own, counted."""
        ticket = self.link.publish(topic, payload, qos=qos, retain=retain, tell=tell)
        self.count(len(payload))
        return ticket

    def _next(self) -> int:
        self.seq += 1
        return self.seq


def accuracy(measured: Measured) -> dict[str, Any]:
    """What a report says of a measurement: per evaluator on the test samples, and on the validation
    samples.
    """
    body = _accuracies(measured.tallies.get("test", {}))
    if measured.tallies.get("validation"):
        body["validation"] = _accuracies(measured.tallies["validation"])
    return body


def _accuracies(tallies: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    # An evaluator with no sample it may judge has no accuracy; 0 would be a lie.
    judged = {name: pair for name, pair in tallies.items() if pair[1]}
    return {
        "accuracy": {name: right / total for name, (right, total) in judged.items()},
        "n": {name: total for name, (_, total) in judged.items()},
    }


def _birth(
    topics: Topics,
    agent: str,
    boot: str,
    body: Mapping[str, Any],
    run: str = "",
    epoch: int = -1,
    seq: int = 0,
) -> bytes:
    envelope = wire.Envelope(
        t="birth",
        fleet=topics.fleet,
        run=run or None,
        epoch=epoch if epoch >= 0 else None,
        agent=agent,
        boot=boot,
        seq=seq,
    )
    return wire.encode(envelope, body)
