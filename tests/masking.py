"""A masked sum in one process: devices that are lost where a test says so."""

from __future__ import annotations

import random
from collections.abc import Mapping, Set
from dataclasses import replace

from protofleet.masking.group import Agreement, Convener, MaskedSum, Member
from protofleet.masking.layout import Layout
from protofleet.masking.letters import decode_letter, encode_letter
from protofleet.masking.rooms import Ceilings, Rooms
from protofleet.values.sums import Partial

STEPS = ("keys", "boxes", "masked", "reveal")
CEILINGS = Ceilings(devices=8, norm=128.0, largest=1024.0, samples=2**17, trace=2.0**14)
Losses = Mapping[str, Set[str]]  # by step, whose answer never arrives


def layout_of(rooms: Rooms, partials: Mapping[str, Partial]) -> Layout:
    """What all devices find; they must find the same."""
    layouts = {Layout.of(rooms, own, len(partials)).digest(): own for own in partials.values()}
    assert len(layouts) == 1
    return Layout.of(rooms, next(iter(layouts.values())), len(partials))


def summed(
    partials: Mapping[str, Partial], rooms: Rooms, dropouts: int, losses: Losses, seed: int = 0
) -> tuple[Partial, dict[str, bytes]]:
    """The total and every masked upload; all messages go through their bytes."""
    layout, draw = layout_of(rooms, partials), random.Random(seed).randbytes
    agreement = Agreement(draw(16), tuple(sorted(partials)), dropouts, layout.digest())
    convener = Convener(agreement)
    members = {name: Member.joining(name, agreement, layout.digest(), draw) for name in partials}
    lost: set[str] = set()

    def posted(step, answers):
        nonlocal convener
        lost.update(losses.get(step, ()))
        for name in sorted(set(answers) - lost):
            convener = convener.take(decode_letter(encode_letter(answers[name])))

    posted("keys", {name: member.keys() for name, member in members.items()})
    convener, roster = convener.call()
    answers = {}
    for name in set(members) - lost:
        members[name], answers[name] = members[name].share(via(roster), draw)
    posted("boxes", answers)
    convener, parcels = convener.deliver()
    masked: dict[str, MaskedSum] = {}
    for name in set(members) - lost:
        members[name], masked[name] = members[name].mask(via(parcels[name]), layout, partials[name])
    posted("masked", masked)
    convener, survivors = convener.close()
    answers = {}
    for name in set(members) - lost:
        members[name], answers[name] = members[name].reveal(via(survivors))
    posted("reveal", answers)
    return convener.total(layout), {name: one.numbers for name, one in masked.items()}


def via(letter):
    """As it arrives."""
    return decode_letter(encode_letter(letter))


def limits(devices: int, **other) -> Ceilings:
    """Close ones."""
    return replace(CEILINGS, devices=devices, **other)
