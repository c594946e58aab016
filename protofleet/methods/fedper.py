"""FedPer (Arivazhagan et al., 2019): the extractor is averaged, every device keeps a head of its
own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from protofleet.methods import fedavg
from protofleet.recipe import Learner, Turn
from protofleet.toolbox import summaries
from protofleet.values.prototypes import Parts


def summarise(turn: Turn[Any], me: Learner, got: Parts) -> Parts:
    """The extractor's weights and running statistics, and how many samples stand behind them."""
    return {"weights": me.weights("backbone"), "data": summaries.sample_count(me.samples)}


recipe = replace(
    fedavg.recipe,
    name="fedper",
    title="average the extractor only; heads are personal, both trained together",
    summarise=summarise,
)
