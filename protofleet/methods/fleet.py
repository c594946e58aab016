"""fleet: a frozen extractor, and a classifier from sums of what devices say of their samples.

Nothing is trained: what a device's labelled samples say is their mean and spread under an extractor
that is the same everywhere, so these add up over devices exactly as if the samples lay in one
place, and one exchange says it all. From the papers: means (FedMPS), second moments that add up
(GFPL's matched moments), a geometry in which classes are evenly apart (ProtoNorm's aim, here by
whitening), and a classifier that fits each device's own classes (FedIC's).

In the field this is a ledger (`coordinator.ledger`), which has no rounds; here are its sums, its
classifier and its hash as a recipe, for the laboratory: contributions, then counts against them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import FusionError
from protofleet.exchange import learned
from protofleet.exchange.state import GlobalState, Upload
from protofleet.masking.rooms import Ceilings, Rooms
from protofleet.recipe import ByHead, Learner, Phase, Recipe, Scorer, Traits, Turn
from protofleet.settings.fields import setting
from protofleet.statistics import agreement, counts, voices
from protofleet.statistics import contribution as contributions
from protofleet.statistics.contribution import RANK, Contribution, Grid, contribution
from protofleet.statistics.held_out import Samples
from protofleet.statistics.prior import SMOOTH, tempered_by, with_prior
from protofleet.toolbox.access import find
from protofleet.values.prototypes import Floats, Head, Ints, Parts, Tensors
from protofleet.values.sums import Partial, from_tensors, merge

GRID = Grid()
_OWN = "contributed"  # what a device remembers: the contribution that it sent


@dataclass(frozen=True)
class Hyper:
    """fleet's settings."""

    rank: int = setting(
        RANK, "directions of a device's spread that it sends, about d bytes each", low=0, high=1024
    )
    covariance: Literal["open", "off"] = setting(
        "open", "off: of a device's spread its size alone is sent, and rank says nothing"
    )
    minimum: int = setting(5, "samples below which a device says nothing of a class", low=1)
    changed: int = setting(
        5, "samples of a class that must have changed before a device speaks of it again", low=1
    )
    smooth: float = setting(
        SMOOTH, "samples that a device's prior adds to each class; large: no prior", low=1e-6
    )
    alarms: float = setting(
        0.05, "share of known things that may be called unknown", low=0.001, high=0.5
    )
    buckets: int = setting(
        1,
        "devices in so many buckets by the hash of their name, of which those are not heard that"
        " others' means and counts speak against: against devices that lie; several times as many"
        " as devices are best",
        low=1,
        high=4096,
    )
    interval: int = setting(
        10, "rounds from one exchange to the next, once all had their say", low=1
    )


def talks(turn: Turn[Hyper]) -> bool:
    """Contributions, counts, and every so many rounds for devices that were not asked before."""
    return turn.round <= 2 or (turn.round - 2) % turn.hyper.interval == 0


def train(turn: Turn[Hyper], me: Learner, state: Parts) -> Sequence[Phase]:
    """Nothing: the extractor stays, and the classifier comes from the fleet."""
    # What adds up exactly must have been seen through the same extractor: one step of training on
    # one device, and its means would be those of another space.
    return []


def summarise(turn: Turn[Hyper], me: Learner, state: Parts) -> Parts:
    """The contribution, once; from then on counts against the total that it is in."""
    if not talks(turn):
        return {}
    features, labels = me.features().high, me.features().labels
    keep = enough(labels, turn.hyper.minimum)
    features, labels = features[keep], labels[keep]
    if not len(labels):
        return {}
    earlier = me.memory.get(_OWN)
    if not earlier:
        me.memory[_OWN] = contributions.parts_of(statement(features, labels, turn.hyper))
        return me.memory[_OWN]
    if learned.MEANS not in state:
        return {}
    own = Samples.of(features, labels, contributions.from_parts(earlier))
    return counts.parts_of(counts.count(learned.moments(state), own))


def statement(features: Floats, labels: Ints, hyper: Hyper) -> Contribution:
    """What a device says of these samples."""
    if hyper.covariance == "off":
        return contribution(features, labels, GRID, 0).even()
    return contribution(features, labels, GRID, hyper.rank)


def fold(turn: Turn[Hyper], upload: Upload, weight: int) -> Partial:
    """Whatever came: sums either way."""
    if not upload.parts:
        return {}
    agent, buckets = upload.agent, turn.hyper.buckets
    if counts.COUNTS in upload.parts:
        return voices.placed(counts.fold(counts.from_parts(upload.parts)), agent, buckets)
    own = contributions.from_parts(upload.parts)
    if own.means.dim != turn.contract.embedding:
        raise FusionError(f"prototypes of {own.means.dim} numbers, not {turn.contract.embedding}")
    return voices.placed(contributions.fold(own, GRID), agent, buckets)


def fuse(turn: Turn[Hyper], total: Partial, before: GlobalState) -> GlobalState:
    """The ledger's total with what is new, and the classifier that it makes."""
    hyper = turn.hyper
    fresh = {name: part for name, part in total.items() if not name.startswith(counts.COUNTS)}
    earlier = find(before.server, learned.TOTAL, Tensors)
    known = {} if earlier is None else from_tensors(earlier)
    # Counts are of the total as it was: beside contributions they say nothing of the new one.
    whole = merge(known, fresh)
    doubted = voices.doubted(whole, hyper.buckets)
    by_voice = {} if fresh else agreement.by_bucket(total, hyper.buckets)
    counted = agreement.together({v: own for v, own in by_voice.items() if v not in doubted})
    if not fresh and counted is None:
        return before
    heard = voices.heard(whole, hyper.buckets, doubted)
    return learned.state(whole, counted, heard=heard, false_alarms=hyper.alarms)[0]


def scorers(turn: Turn[Any], me: Learner, state: Parts) -> Mapping[str, Scorer]:
    """The fleet's head, with the device's own counts as a prior."""
    head, hyper = find(state, learned.HEAD, Head), turn.hyper
    if head is None:
        return {"head": ByHead()}
    # Who has no samples has no prior: the head as it is, whose scores the calibration is about.
    if not me.samples:
        return {"prototype": ByHead(rows=head)}
    sure = learned.calibration(state)
    temper = tempered_by(1.0 if sure is None else sure.temperature)
    # The prior never leaves the device: it is what makes one common classifier fit this device's
    # classes, and it would tell which those are.
    own = np.bincount(me.features().labels, minlength=turn.contract.n_classes)
    return {"prototype": ByHead(rows=with_prior(head, own, temper, hyper.smooth))}


def enough(labels: Ints, minimum: int) -> NDArray[np.bool_]:
    """Which samples are of classes that the device has enough of: a mean of one or two is a
    photograph to whoever can turn features into images.
    """
    keep: NDArray[np.bool_] = np.bincount(labels, minlength=1)[labels] >= minimum
    return keep


def rooms(turn: Turn[Hyper], ceilings: Ceilings) -> Rooms:
    """Contributions; and counts, once there is something to count against. In buckets there are
    none: a bucket of one device is that device's upload, which nobody is to read.
    """
    fleet = turn.contract
    if turn.hyper.buckets > 1:
        return {}
    own = contributions.rooms(GRID, fleet.n_classes, fleet.embedding, ceilings)
    return own if turn.round == 1 else {**own, **counts.rooms()}


recipe = Recipe(
    name="fleet",
    title="add up class means and a covariance under an extractor that never learns; "
    "classify by discriminants",
    hyper=Hyper,
    train=train,
    summarise=summarise,
    fold=fold,
    fuse=fuse,
    scorers=scorers,
    talks=talks,
    rooms=rooms,
    # Rows of the head are differences of large numbers, whose last digits decide. Of what devices
    # send, means and rows lie on grids that their precision holds.
    precision={
        "scatter": "float32",
        learned.HEAD: "float32",
        learned.MEANS: "float32",
        learned.WITHIN: "half",
    },
    traits=Traits(
        mixed_backbones=False, common_start=True, frozen=True, backbone="fixed", embedding=504
    ),
)
