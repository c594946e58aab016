"""One round's fusion: uploads in, the next global state out; the same in the lab, in the field and
in a replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from protofleet import wire
from protofleet.contract import Wire
from protofleet.errors import FusionError
from protofleet.exchange.state import GlobalState, Upload
from protofleet.recipe import Recipe, Turn
from protofleet.values.sums import Partial, merge


def fuse_round(
    recipe: Recipe[Any],
    turn: Turn[Any],
    before: GlobalState,
    uploads: Iterable[Upload],
    weight: int = 1,
) -> GlobalState:
    """Fold the uploads as they come and fuse the total."""
    total: Partial = {}
    for upload in uploads:
        total = merge(total, recipe.fold(turn, upload, weight))
    return fuse_total(recipe, turn, total, before)


def fuse_total(
    recipe: Recipe[Any], turn: Turn[Any], total: Partial, before: GlobalState
) -> GlobalState:
    """The next state, as its readers will decode it, to the bit."""
    return as_published(recipe.fuse(turn, total, before), turn.contract.wire, recipe.precision)


def noised(total: Partial, noise: Partial | None) -> Partial:
    """What of a total anybody may see, where the run has a budget. Where nobody said anything there
    is nothing to hide.
    """
    if noise is None:
        raise FusionError("its noise is not in the journal: nothing is published without it")
    return merge(total, noise) if total else total


def start_state(recipe: Recipe[Any], turn: Turn[Any]) -> GlobalState:
    """What the first round starts from, as its readers will decode it."""
    return as_published(recipe.start(turn), turn.contract.wire, recipe.precision)


def as_published(
    state: GlobalState, precision: Wire, exceptions: Mapping[str, Wire]
) -> GlobalState:
    """The state after its passage through the codec, so that coordinator and devices hold the same
    numbers.
    """
    return GlobalState(
        wire.as_received(state.shared, precision, exceptions),
        {agent: wire.as_received(own, precision, exceptions) for agent, own in state.own.items()},
        state.server,
    )
