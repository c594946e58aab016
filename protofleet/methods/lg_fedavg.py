"""LG-FedAvg (Liang et al., 2020): every device learns its own representation; only the head on it
is averaged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from protofleet.methods import fedavg
from protofleet.recipe import Learner, Traits, Turn
from protofleet.toolbox import summaries
from protofleet.values.prototypes import Parts


def summarise(turn: Turn[Any], me: Learner, state: Parts) -> Parts:
    """The head's weights, and how many samples stand behind them."""
    # FedPer's mirror image. The part on top is the small one, which is what the paper saves bytes
    # by; and what lies below may then differ from device to device.
    return {"weights": me.weights("head"), "data": summaries.sample_count(me.samples)}


# `mixed_backbones` stays at its default, yes: the contract fixes the embedding's size and the
# head's layers, so heads add up over backbones of any kind. A common start gives devices of one
# backbone the same weights: without it heads are averaged that read unrelated coordinates, and it
# takes rounds until the extractors have followed the head that they share.
recipe = replace(
    fedavg.recipe,
    name="lg-fedavg",
    title="average the head only; representations stay on the devices and may differ",
    summarise=summarise,
    traits=Traits(common_start=True, asynchronous=True),
)
