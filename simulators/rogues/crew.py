"""Crews whose messages somebody looks at: one notes what is in them, in the other some devices send
something else than what they have learnt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields

import numpy as np

from coordinator.config import UploadLimits
from coordinator.uploads.measured import figures
from coordinator.uploads.validation import content
from edge_agent.training.evaluate import Tallies
from protofleet import wire
from protofleet.errors import FleetError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.recipe import Turn
from protofleet.util import seeds
from protofleet.values.prototypes import Parts, Prototypes
from simulators.rogues.attacks import Attack, RogueView
from simulators.run.setup import Setup
from simulators.run.workers import Crew, Embedded, upload_message

HALVINGS = 32  # as often a rogue says less until it is let in


class PlainCrew:
    """As the crew it is made of."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.sent: Mapping[str, bytes] = {}  # in the newest round

    def receive(self, round: int, state: GlobalState) -> None:
        """Give every device the state."""
        self._crew.receive(round, state)

    def evaluate(self, round: int, *, common: bool = False) -> dict[str, Tallies]:
        """How every device classifies."""
        return self._crew.evaluate(round, common=common)

    def work(self, round: int, agents: Sequence[str]) -> dict[str, bytes]:
        """Let these devices train; the messages they would send."""
        return self._crew.work(round, agents)

    def embed(self, most: int) -> dict[str, Embedded]:
        """Embeddings of some test samples of every device."""
        return self._crew.embed(most)

    def checkpoint(self) -> dict[str, dict[str, Parts]]:
        """What every device must remember."""
        return self._crew.checkpoint()

    def restore(self, saved: Mapping[str, dict[str, Parts]]) -> None:
        """Put every device back."""
        self._crew.restore(saved)

    def peak_rss(self) -> int:
        """The largest resident size so far, in bytes."""
        return self._crew.peak_rss()

    def close(self) -> None:
        """End the crew."""
        self._crew.close()


class MeasuredCrew(PlainCrew):
    """Notes the figures of every upload."""

    def __init__(self, crew: Crew) -> None:
        super().__init__(crew)
        self.figures: dict[str, list[UploadLimits]] = {}
        self.names: set[str] = set()  # of parts

    def work(self, round: int, agents: Sequence[str]) -> dict[str, bytes]:
        """As it is sent."""
        messages = self.sent = super().work(round, agents)
        for name, message in messages.items():
            parts = wire.decode(message).body
            self.figures.setdefault(name, []).append(figures(parts))
            self.names.update(parts)
        return messages


class RogueCrew(PlainCrew):
    """Some devices lie: they train as the others do, send what an attack makes of it, and are not
    evaluated.
    """

    def __init__(self, crew: Crew, setup: Setup, rogues: Sequence[str], attack: Attack) -> None:
        super().__init__(crew)
        self._setup, self._rogues, self._attack = setup, frozenset(rogues), attack
        self._base = GlobalState().base
        self.tried = self.admitted = 0

    def receive(self, round: int, state: GlobalState) -> None:
        """Rogues hear what all are told."""
        self._base = state.base
        super().receive(round, state)

    def evaluate(self, round: int, *, common: bool = False) -> dict[str, Tallies]:
        """How the others classify."""
        tallies = super().evaluate(round, common=common)
        return {name: own for name, own in tallies.items() if name not in self._rogues}

    def work(self, round: int, agents: Sequence[str]) -> dict[str, bytes]:
        """The rogues' messages made anew; one that a coordinator would refuse is not there."""
        messages = super().work(round, agents)
        rogues = sorted(self._rogues & messages.keys())
        honest = {name: messages.pop(name) for name in rogues}
        others = overheard(messages)
        for name in rogues:
            self.tried += 1
            forged = self._forged(name, round, wire.decode(honest[name]).body, others)
            if forged is not None:
                messages[name] = forged
                self.admitted += 1
        self.sent = messages
        return messages

    def _forged(self, name: str, round: int, parts: Parts, others: Parts) -> bytes | None:
        """The boldest that is let in: a method's own fold has bounds beside the limits."""
        setup = self._setup
        for halvings in range(HALVINGS):
            limits = smaller(setup.config.admission, 2.0**-halvings)
            # Of the round alone and not of the device: those that collude say the same.
            rng = seeds.generator(setup.contract.seed, "rogue", round)
            with suppress(FleetError):
                lie = self._attack(parts, RogueView(limits, others, rng))
                message = upload_message(setup, name, round, self._base, lie)
                if self._let_in(name, round, message):
                    return message
        return None

    def _let_in(self, name: str, round: int, message: bytes) -> bool:
        setup, parts = self._setup, wire.decode(message).body
        if content(setup.expected, parts, talks=True) is not None:
            return False
        upload = Upload(name, round, self._base, parts)
        setup.recipe.fold(Turn(setup.contract, setup.hyper, round), upload, 1)
        return True


def overheard(messages: Mapping[str, bytes]) -> Parts:
    """What the first of these to speak of a class says of it, by part: whoever reads the broker
    knows it.
    """
    heard: dict[str, Prototypes] = {}
    for name in sorted(messages):
        for part, own in wire.decode(messages[name]).body.items():
            if isinstance(own, Prototypes) and len(set(own.classes.tolist())) == len(own.classes):
                before = heard.get(part, own)
                fresh = own.only(np.setdiff1d(own.classes, before.classes))
                classes = np.concatenate([before.classes, fresh.classes])
                rows = np.concatenate([before.vectors, fresh.vectors])
                heard[part] = Prototypes(classes, rows)
    return heard


def smaller(limits: UploadLimits, factor: float) -> UploadLimits:
    """So much of each, and of whole numbers at least one."""
    values = {f.name: getattr(limits, f.name) for f in fields(UploadLimits)}
    return UploadLimits(
        **{
            name: max(1, int(value * factor)) if isinstance(value, int) else value * factor
            for name, value in values.items()
        }
    )
