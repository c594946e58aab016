"""What a masked sum costs: bytes of a device beside half precision, and processor time of a device
and of the coordinator.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TypeVar

import numpy as np

from protofleet.masking import neighbours
from protofleet.masking.group import Agreement, Convener, Member
from protofleet.masking.layout import Layout
from protofleet.masking.letters import encode_letter
from protofleet.masking.rooms import Ceilings
from protofleet.statistics.contribution import Grid, contribution, fold, rooms
from protofleet.values.sums import Partial, digest, merge_all

T = TypeVar("T")
CLASSES, DEVICES_SAMPLES = 10, 60


@dataclass(frozen=True)
class MaskCosts:
    """Of one group; bytes and seconds are a device's, but for the coordinator's."""

    devices: int
    width: int
    neighbours: int
    lost: int
    octets: int  # of everything a device sends
    half: int  # of the same numbers in half precision
    ratio: float
    cpu: float
    cpu_most: float  # of the slowest device
    coordinator_cpu: float
    equal: bool  # the total to the plain one, to the bit


def measured(devices: int, width: int, dropouts: int, samples: int, norm: float) -> MaskCosts:
    """Contributions of random features to `fleet`'s sums; `dropouts` devices are lost after they
    shared their secrets, which is what costs the coordinator most.
    """
    grid, ceiling = Grid(), Ceilings(devices, norm, norm, samples, norm**2)
    partials = {f"device-{n:04}": _partial(n, width, norm, grid) for n in range(devices)}
    layout = Layout.of(rooms(grid, CLASSES, width, ceiling), {}, devices)
    names = sorted(partials)
    agreement = Agreement(os.urandom(16), tuple(names), dropouts, layout.digest())
    convener, cpu, sent = Convener(agreement), dict.fromkeys(names, 0.0), dict.fromkeys(names, 0)
    central = [0.0]

    def timed(call: Callable[[], T], of: str | None = None) -> T:
        began = time.process_time()
        outcome = call()
        seconds = time.process_time() - began
        if of is None:
            central[0] += seconds
        else:
            cpu[of] += seconds
        return outcome

    def post(name: str, letter: object) -> None:
        nonlocal convener
        sent[name] += len(encode_letter(letter))  # type: ignore[arg-type]
        convener = timed(lambda: convener.take(letter))  # type: ignore[arg-type]

    members: dict[str, Member] = {}
    for name in names:
        members[name] = Member.joining(name, agreement, layout.digest(), os.urandom)
        post(name, timed(members[name].keys, name))
    convener, roster = timed(convener.call)
    for name in names:
        members[name], boxes = timed(partial(members[name].share, roster, os.urandom), name)
        post(name, boxes)
    convener, parcels = timed(convener.deliver)
    lost = set(names[1 : 1 + dropouts])
    for name in names:
        if name not in lost:
            members[name], sums = timed(
                partial(members[name].mask, parcels[name], layout, partials[name]), name
            )
            post(name, sums)
    convener, survivors = timed(convener.close)
    for name in survivors.devices:
        members[name], reveal = timed(partial(members[name].reveal, survivors), name)
        post(name, reveal)
    total = timed(lambda: convener.total(layout))
    there = [name for name in names if name not in lost]
    return MaskCosts(
        devices,
        width,
        neighbours.degree(devices, dropouts),
        dropouts,
        max(sent[name] for name in there),
        _half(width),
        max(sent[name] for name in there) / _half(width),
        fmean(cpu[name] for name in there),
        max(cpu[name] for name in there),
        central[0],
        digest(total) == digest(_plain(partials, lost)),
    )


def _plain(partials: Mapping[str, Partial], lost: set[str]) -> Partial:
    return merge_all(own for name, own in partials.items() if name not in lost)


def _half(width: int) -> int:
    """Means and the upper triangle of a covariance."""
    return 2 * (CLASSES * width + width * (width + 1) // 2)


def _partial(number: int, width: int, norm: float, grid: Grid) -> Partial:
    rng = np.random.default_rng(number)
    features = rng.normal(size=(DEVICES_SAMPLES, width)) + rng.normal(size=width)
    features *= 0.9 * norm / np.linalg.norm(features, axis=1, keepdims=True)
    labels = rng.integers(0, CLASSES, DEVICES_SAMPLES)
    return fold(contribution(features, labels, grid), grid)
