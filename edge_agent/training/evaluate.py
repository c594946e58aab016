"""How well a device classifies: one tally a split and evaluator, class by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_agent.networks.net import FleetNet
from edge_agent.training.batches import SampleTensors, blocks
from protofleet.contract import Contract
from protofleet.recipe import ByHead, LikeliestMixture, NearestPrototype, Scorer
from protofleet.values import nearest
from protofleet.values.prototypes import Ints

Scores = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tally:
    """Right answers and samples, per class id."""

    correct: Ints
    total: Ints

    @property
    def accuracy(self) -> float | None:
        """The share of right answers; None without samples."""
        samples = int(self.total.sum())
        return float(self.correct.sum() / samples) if samples else None


Tallies = Mapping[str, Mapping[str, Tally]]  # split -> evaluator -> tally


def evaluate(
    net: FleetNet,
    scorers: Mapping[str, Scorer],
    splits: Mapping[str, SampleTensors],
    own: Ints,
    contract: Contract,
) -> Tallies:
    """Every scorer on every split: among the device's own classes, and among all the fleet knows.

    `prototype` answers among the device's own classes and `prototype_all_classes` among all; `head`
    answers among all and `head_own_classes` among its own. These are the readings of the papers'
    own code.
    """
    return {
        split: _evaluate(net, scorers, samples, own, contract) for split, samples in splits.items()
    }


def _evaluate(
    net: FleetNet,
    scorers: Mapping[str, Scorer],
    samples: SampleTensors,
    own: Ints,
    contract: Contract,
) -> dict[str, Tally]:
    if not len(samples):
        return {}
    net.eval()
    # The embeddings once, whatever the number of scorers: they are what costs.
    with torch.inference_mode():
        z = torch.cat(
            [net.features(x)[1] for x in blocks(samples, contract.input, contract.numerics)]
        )
    labels = samples.y.numpy()
    tallies: dict[str, Tally] = {}
    for name, scorer in scorers.items():
        scores = _scores(scorer, net, z, contract.n_classes)
        among_own = _tally(nearest.best(scores, own), labels, contract.n_classes)
        among_all = _tally(nearest.best(scores), labels, contract.n_classes)
        # The plain name is what the papers' code reports: of a head that was trained with all its
        # outputs the answer among all of them, of prototypes the answer among the classes at hand.
        if isinstance(scorer, ByHead) and scorer.rows is None:
            tallies |= {name: among_all, f"{name}_own_classes": among_own}
        else:
            tallies |= {name: among_own, f"{name}_all_classes": among_all}
    return tallies


def _scores(scorer: Scorer, net: FleetNet, z: Tensor, n_classes: int) -> Scores:
    with torch.inference_mode():
        match scorer:
            case ByHead(of_unit, rows):
                embedding = torch.nn.functional.normalize(z) if of_unit else z
                if rows is not None:
                    return nearest.head_scores(embedding.cpu().numpy(), rows, n_classes)
                logits: Scores = net.head(embedding).cpu().numpy().astype(np.float64)
                return logits
            case NearestPrototype(prototypes, metric, through, of_unit):
                embedding = torch.nn.functional.normalize(z) if of_unit else z
                compared = net.extra(through, embedding) if through else embedding
                return nearest.prototype_scores(
                    compared.cpu().numpy(), prototypes, n_classes, metric
                )
            case LikeliestMixture(mixtures):
                return nearest.mixture_scores(z.cpu().numpy(), mixtures, n_classes)


def _tally(answers: Ints, labels: Ints, n_classes: int) -> Tally:
    right = answers == labels
    return Tally(
        np.bincount(labels[right], minlength=n_classes), np.bincount(labels, minlength=n_classes)
    )
