"""A round whose sums are masked, in memory: the messages of the group as bytes, the devices that
are lost on the way, and the total that comes out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from protofleet.budget.noise import Sampler, drawn, seeded
from protofleet.budget.private import Private
from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.group import Agreement, Convener, Member
from protofleet.masking.layout import Layout
from protofleet.masking.letters import Letter, decode_letter, encode_letter
from protofleet.masking.rooms import Ceilings, MaskTerms, Rooms
from protofleet.masking.shares import Draw
from protofleet.recipe import Recipe, Turn
from protofleet.values.sums import Partial, merge
from simulators.run.config import LabConfig

STEPS = ("keys", "shares", "masks", "reveal")  # at which an answer may be lost


@dataclass(frozen=True)
class MaskedRound:
    """What came out, and what it took."""

    total: Partial
    up: int  # bytes of all devices together
    down: int
    lost: Mapping[str, str] = field(default_factory=dict)  # by device, at which step


class MaskedRun(Protocol):
    """What of a run decides its masked sums."""

    @property
    def config(self) -> LabConfig: ...
    @property
    def recipe(self) -> Recipe[Any]: ...
    @property
    def private(self) -> Private | None: ...


def masked_round(
    run: MaskedRun, turn: Turn[Any], before: GlobalState, uploads: Sequence[Upload]
) -> MaskedRound:
    """Of these devices' uploads; who is lost and where comes from the run's seed."""
    config, recipe = run.config, run.recipe
    rooms = recipe.rooms(turn, ceilings(config, len(uploads)))
    partials = {upload.agent: recipe.fold(turn, upload, 1) for upload in uploads}
    if run.private is not None:
        fewest = max(1, len(uploads) - config.masks.dropouts)
        for name, own in partials.items():
            # Its own noise, in its own name: so much that the fewest who survive have enough.
            sample = sampler(config, replace(turn, agent=name))
            partials[name] = merge(own, run.private.noise(turn, before, sample, 1 / fewest))
    lost = losses(turn, sorted(partials), config.masks.dropouts)
    return added(partials, rooms, config.masks.dropouts, lost)


def terms(config: LabConfig) -> MaskTerms:
    """What is agreed on: the closer of what is let in and what a masked sum has room for."""
    limits, room = config.admission, config.masks
    norm = min(limits.norm, room.mask_norm)
    return MaskTerms(
        room.dropouts,
        norm,
        min(limits.largest, room.mask_largest),
        min(limits.samples, room.mask_samples),
        min(limits.trace, norm**2),
    )


def ceilings(config: LabConfig, devices: int) -> Ceilings:
    """Of a group of so many."""
    return terms(config).ceilings(devices)


def sampler(config: LabConfig, turn: Turn[Any]) -> Sampler:
    """Where a round's noise comes from."""
    return drawn if config.budget.noise == "system" else seeded(turn.rng("noise"))


def losses(turn: Turn[Any], devices: Sequence[str], count: int) -> dict[str, str]:
    """So many devices, each at a step of its own."""
    rng = turn.rng("dropouts")
    chosen = rng.choice(len(devices), count, replace=False)
    return {devices[int(at)]: STEPS[int(rng.integers(len(STEPS)))] for at in chosen}


def added(
    partials: Mapping[str, Partial],
    rooms: Rooms,
    dropouts: int,
    lost: Mapping[str, str],
    draw: Draw = os.urandom,
) -> MaskedRound:
    """The exchange from the first message to the total."""
    layouts = {name: Layout.of(rooms, own, len(partials)) for name, own in partials.items()}
    layout = layouts[min(layouts)]
    post = _Post(Convener(_agreement(sorted(partials), dropouts, layout, draw)), lost)
    agreement = post.convener.agreement
    post.announce(agreement, len(partials))
    members = {
        name: Member.joining(name, agreement, layouts[name].digest(), draw) for name in partials
    }
    post.answer("keys", {name: member.keys() for name, member in members.items()})

    post.convener, roster = post.convener.call()
    post.announce(roster, len(roster.keys))
    boxes: dict[str, Letter] = {}
    for name in post.present(roster.keys):
        members[name], boxes[name] = members[name].share(roster, draw)
    post.answer("shares", boxes)

    post.convener, parcels = post.convener.deliver()
    sums: dict[str, Letter] = {}
    for name in post.present(parcels):
        post.announce(parcels[name], 1)
        members[name], sums[name] = members[name].mask(parcels[name], layouts[name], partials[name])
    post.answer("masks", sums)

    post.convener, survivors = post.convener.close()
    post.announce(survivors, len(parcels))
    reveals: dict[str, Letter] = {}
    for name in post.present(sums):
        members[name], reveals[name] = members[name].reveal(survivors)
    post.answer("reveal", reveals)
    return MaskedRound(post.convener.total(layout), post.up, post.down, dict(lost))


def _agreement(devices: Sequence[str], dropouts: int, layout: Layout, draw: Draw) -> Agreement:
    return Agreement(draw(16), tuple(devices), dropouts, layout.digest(), "a round")


class _Post:
    """Carries letters as bytes, and loses those of whom it is to lose."""

    def __init__(self, convener: Convener, lost: Mapping[str, str]) -> None:
        self.convener, self.up, self.down = convener, 0, 0
        self._lost, self._gone = lost, set[str]()

    def announce(self, letter: Letter, devices: int) -> None:
        self.down += devices * len(encode_letter(letter))

    def answer(self, step: str, letters: Mapping[str, Letter]) -> None:
        self._gone |= {name for name, at in self._lost.items() if at == step}
        for name in self.present(letters):
            message = encode_letter(letters[name])
            self.up += len(message)
            self.convener = self.convener.take(decode_letter(message))  # type: ignore[arg-type]

    def present(self, names: Mapping[str, Any]) -> list[str]:
        return sorted(set(names) - self._gone)
