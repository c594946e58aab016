"""How a trained device classifies, as data: what the graph does to an embedding and what it is
compared with.
"""

from __future__ import annotations

from collections.abc import Mapping

from edge_agent.inference.bundle import Reading
from protofleet.errors import UsageError
from protofleet.exchange.published import Points
from protofleet.recipe import ByHead, LikeliestMixture, NearestPrototype, Scorer
from protofleet.scoring import points_of, primary


def chosen(scorers: Mapping[str, Scorer], by: str | None) -> tuple[Reading, Points | None]:
    """The named scorer, or the one that the method's runs are known by: how it reads, and its
    points (a head's are in the network).
    """
    usual = primary(scorers)
    name = by or (usual if usual in scorers else next(iter(scorers)))
    if name not in scorers:
        raise UsageError(
            f"this model does not classify by {name!r}", f"it does by {', '.join(scorers)}"
        )
    scorer = scorers[name]
    match scorer:
        case ByHead(of_unit, rows):
            return Reading("head", of_unit=of_unit), rows
        case NearestPrototype(_, metric, through, of_unit):
            return Reading("prototypes", metric, of_unit, through), points_of(scorer)
        case LikeliestMixture():
            return Reading("mixtures"), points_of(scorer)
