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


def summarise(turn: Turn[Any], me: Learner, got: Parts) -> Parts:
    """The head's weights, and how many samples stand behind them."""
    return {"weights": me.weights("head"), "data": summaries.sample_count(me.samples)}


recipe = replace(
    fedavg.recipe,
    name="lg-fedavg",
    title="average the head only; representations stay on the devices and may differ",
    summarise=summarise,
    traits=Traits(common_start=True, asynchronous=True),
)
