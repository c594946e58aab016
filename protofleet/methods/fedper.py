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


def summarise(turn: Turn[Any], me: Learner, state: Parts) -> Parts:
    """The extractor's weights and running statistics, and how many samples stand behind them."""
    # The paper counts "base layers" and "personalization layers" from the end of the network and
    # tries several cuts; here the cut is where every network of the house has one, between backbone
    # and head, and the whole head is personal. Base layers carry their batch norm along.
    return {"weights": me.weights("backbone"), "data": summaries.sample_count(me.samples)}


# Everything else is FedAvg's, and that is the point: `fold`, `fuse` and `receive` move whatever
# tensors are called "weights", so leaving the head out of them is all that makes a head personal.
# The paper trains base and head together by SGD, as `fedavg.train` does. It averages with weights
# γ_j = n_j / n.
recipe = replace(
    fedavg.recipe,
    name="fedper",
    title="average the extractor only; heads are personal, both trained together",
    summarise=summarise,
)
