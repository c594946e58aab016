"""What the coordinator says: states, announcements and receipts, each under the envelope of its
run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coordinator.journal.records import RoundRecord
from coordinator.rounds.machine import RoundRules, RunState
from protofleet import wire
from protofleet.contract import Contract
from protofleet.exchange.lots import BAR, Lots
from protofleet.exchange.state import GlobalState
from protofleet.masking.letters import Letter, encode_letter
from protofleet.mqtt.blobs.descriptor import BlobDescriptor, BlobLimits
from protofleet.mqtt.link.events import Publication
from protofleet.mqtt.topics import Topics
from protofleet.recipe import Recipe
from protofleet.settings.fields import to_plain
from protofleet.wire import Envelope, ReceiptTemplate
from protofleet.wire.codes import RoundPhase
from protofleet.wire.templates import BLANK, HASH

TEMPLATES = 256  # of receipts, by round, status and length of the agent's name


@dataclass(frozen=True)
class BundleBlob:
    """A bundle as it travels: its name, and the sha256 and size of its bytes; no name for none."""

    bundle: str
    digest: str
    size: int


@dataclass(frozen=True)
class Messages:
    """Every message of one life of a coordinator, under its epoch."""

    topics: Topics
    contract: Contract
    recipe: Recipe[Any]
    hyper: Any
    epoch: int
    boot: str
    packet: int
    _templates: dict[tuple[int, str, int], ReceiptTemplate] = field(
        default_factory=dict, repr=False, compare=False
    )

    def state(self, run_state: RunState, rules: RoundRules, online: bool = True) -> Publication:
        """Who serves the fleet, and how far it is."""
        paused = run_state.paused and run_state.phase == "waiting"
        body = {
            "online": online,
            "method": self.recipe.name,
            "mode": "sync" if rules.cut is None else "async",
            "phase": "paused" if paused else run_state.phase,
            "rounds": rules.rounds,
            # So that no device says how much it has before it knows.
            **({"budget": True} if self.contract.budget is not None else {}),
        }
        data = wire.encode(self._envelope("state", run_state.number, boot=self.boot), body)
        return Publication(self.topics.coordinator_state, data, retain=True)

    def train(self, round: int, state: GlobalState) -> Publication:
        """The shared state that devices train on."""
        data = wire.encode(
            self._envelope("global", round, state.base),
            state.shared,
            precision=self.contract.wire,
            exceptions=self.recipe.precision,
        )
        return Publication(self.topics.shared_state, data, retain=True)

    def own(self, agent: str, round: int, state: GlobalState) -> Publication:
        """A device's own part of the state, empty where it has none."""
        data = wire.encode(
            self._envelope("own", round, state.base),
            state.for_agent(agent),
            precision=self.contract.wire,
            exceptions=self.recipe.precision,
        )
        return Publication(self.topics.own_state(agent), data, retain=True)

    def round(
        self,
        opened: RoundRecord,
        run_state: RunState,
        rules: RoundRules,
        lots: Lots | None,
        own: bool,
        staleness: int,
    ) -> Publication:
        """All that a device needs to take part; without lots everybody does. Nobody is named: who
        is asked would be longer than a packet.
        """
        phases = {"collecting": RoundPhase.OPEN, "done": RoundPhase.DONE}
        phase = phases.get(run_state.phase, RoundPhase.CLOSED)
        paused = run_state.paused and phase == RoundPhase.CLOSED
        body = {
            "phase": RoundPhase.PAUSED if paused else phase,
            "contract": self.contract.announced(),
            "hyper": to_plain(self.hyper),
            "participants": None if lots is None else [],
            **({} if lots is None else {BAR: lots.bar}),
            "base_round": opened.base_round,
            "own": own,
            "talks": opened.talks,
            "deadline": rules.timeout,
            "quorum": rules.quorum,
            "packet": self.packet,
            "staleness": staleness,
        }
        data = wire.encode(self._envelope("round", opened.round, opened.base), body)
        return Publication(self.topics.round, data, retain=True)

    def bundle(self, channel: str, blob: BundleBlob) -> Publication:
        """The bundle that a channel's prototypes belong to, by its descriptor: devices fetch it in
        pieces. No name: none.
        """
        topic = self.topics.bundle(channel)
        if not blob.bundle:
            return Publication(topic, b"", retain=True)
        descriptor = BlobDescriptor(blob.digest, blob.size, BlobLimits(self.packet).chunk)
        body = {**descriptor.body(), "of": "bundle", "bundle": blob.bundle}
        return Publication(topic, wire.encode(self._envelope("slip", 0), body), retain=True)

    def group(self, round: int, letter: Letter) -> Publication:
        """The newest word of a group for a masked sum, to all of it."""
        data = wire.encode(self._envelope("group", round), encode_letter(letter))
        return Publication(self.topics.group, data, retain=True)

    def no_group(self) -> Publication:
        """There is none: its word is taken back."""
        return Publication(self.topics.group, b"", retain=True)

    def box(self, agent: str, round: int, letter: Letter) -> Publication:
        """What of a group is for one device."""
        data = wire.encode(self._envelope("group", round), encode_letter(letter))
        return Publication(self.topics.box(agent), data, retain=True)

    def no_box(self, agent: str) -> Publication:
        """It is of no use any more."""
        return Publication(self.topics.box(agent), b"", retain=True)

    def receipt(
        self,
        agent: str,
        round: int,
        digest: str,
        status: str,
        reason: str = "",
        words: str = "",
        missing: tuple[tuple[int, int], ...] = (),
    ) -> Publication:
        """The answer to an upload. At QoS 0: a device that misses it asks again."""
        if not reason and not missing:
            name = agent.encode()
            template = self._receipt_template(round, status, len(name))
            return Publication(self.topics.receipt(agent), template.filled(digest, name), qos=0)
        body = _receipt_body(digest, round, status)
        body |= {"reason": reason, "words": words[:250]} if reason else {}
        body |= {"missing": [list(pair) for pair in missing]} if missing else {}
        data = wire.encode(self._envelope("receipt", round, agent=agent), body)
        return Publication(self.topics.receipt(agent), data, qos=0)

    def _receipt_template(self, round: int, status: str, length: int) -> ReceiptTemplate:
        template = self._templates.get((round, status, length))
        if template is None:
            envelope = self._envelope("receipt", round, agent=BLANK * length)
            blank = wire.encode(envelope, _receipt_body(BLANK * HASH, round, status))
            template = ReceiptTemplate.of(blank, length)
            if len(self._templates) >= TEMPLATES:
                self._templates.clear()
            self._templates[round, status, length] = template
        return template

    def _envelope(
        self,
        t: str,
        round: int,
        base: str | None = None,
        boot: str | None = None,
        agent: str | None = None,
    ) -> Envelope:
        return Envelope(
            t=t,
            fleet=self.topics.fleet,
            run=self.contract.run,
            epoch=self.epoch,
            agent=agent,
            boot=boot,
            round=round,
            method=self.recipe.name,
            base=base,
        )


def _receipt_body(digest: str, round: int, status: str) -> dict[str, Any]:
    return {"digest": digest, "round": round, "status": status}
